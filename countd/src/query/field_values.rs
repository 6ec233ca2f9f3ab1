//! The values of fields of counters.

use std::ops::Deref;

/// The length of a counter in the replies, in bytes.
pub(super) const FIELD_BYTES: usize = 5;

/// The values of fields. Missing ones are 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    values: Vec<u64>,
    /// Whether the object has enough fields.
    pub length: Length,
}

/// Whether an object has at least the minimum number of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// It has, or is missing.
    Sufficient,
    /// It has fewer.
    TooShort,
    /// All fields from the last one of the minimum on are 0: they may be missing.
    Unknown,
}

impl Deref for Fields {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.values
    }
}

impl From<Vec<u64>> for Fields {
    fn from(values: Vec<u64>) -> Fields {
        Fields {
            values,
            length: Length::Sufficient,
        }
    }
}

/// What a command reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A String, which ends with the last field that was written.
    String,
    /// Objects, of which missing fields are 0.
    Objects,
    /// Rows of a table, which are never too short.
    Rows,
}

impl Fields {
    /// Values that a command of this kind has read: the length of its reply in bytes, and the minimum number of fields.
    pub(super) fn new(kind: Kind, values: Vec<u64>, (bytes, min_len): (usize, usize)) -> Fields {
        let is_short = bytes > 0 && bytes < min_len * FIELD_BYTES;
        let has_tail = || {
            let tail = values.get(min_len.saturating_sub(1)..);
            tail.is_some_and(|tail| tail.iter().any(|count| *count > 0))
        };
        let length = match kind {
            Kind::String if is_short => Length::TooShort,
            Kind::Objects if min_len > 0 && !has_tail() => Length::Unknown,
            Kind::String | Kind::Objects | Kind::Rows => Length::Sufficient,
        };
        Fields { values, length }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_tells_whether_an_object_may_be_too_short() {
        let length = |kind, values: &[u64], read| Fields::new(kind, values.to_vec(), read).length;
        // The reply with a String has its length.
        assert_eq!(length(Kind::String, &[1, 0, 0], (5, 2)), Length::TooShort);
        assert_eq!(length(Kind::String, &[1, 0, 0], (12, 3)), Length::TooShort);
        assert_eq!(
            length(Kind::String, &[1, 0, 0], (10, 2)),
            Length::Sufficient
        );
        assert_eq!(length(Kind::String, &[0, 0, 0], (0, 3)), Length::Sufficient);
        // Fields that an object lacks are 0.
        assert_eq!(length(Kind::Objects, &[1, 0, 0], (15, 2)), Length::Unknown);
        assert_eq!(
            length(Kind::Objects, &[1, 0, 4], (15, 2)),
            Length::Sufficient
        );
        assert_eq!(
            length(Kind::Objects, &[1, 2, 0], (15, 2)),
            Length::Sufficient
        );
        assert_eq!(
            length(Kind::Objects, &[1, 0, 0], (15, 0)),
            Length::Sufficient
        );
        assert_eq!(length(Kind::Rows, &[1, 0, 0], (15, 2)), Length::Sufficient);
    }
}
