//! Strings of 4-byte counters, with a Hash of increments that the product has not yet added to them.

use super::pattern::KeyPattern;
use crate::domain::text::shorten;
use crate::maintenance::import::record::{MAX_COUNT, count};
use std::collections::BTreeMap;

/// The length of a counter, in bytes.
pub const WIDTH: usize = 4;

/// The byte order of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endian {
    /// The most significant byte first, as `BITFIELD` writes.
    Big,
    /// The least significant byte first.
    Little,
}

/// A String per entity, of 4-byte counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The keys of the Strings.
    pub pattern: KeyPattern,
    /// The metric of each counter; `None` if it is not imported.
    pub fields: Vec<Option<String>>,
    /// The keys of the Hashes of increments.
    pub increments: Option<KeyPattern>,
    /// The byte order.
    pub endian: Endian,
}

impl Packed {
    /// The counts of an entity: the counters and the increments.
    ///
    /// # Errors
    /// The String is longer than the fields or ends within a counter, a field of the Hash is unknown, or a count is out of range.
    pub fn counts(
        &self,
        text: &[u8],
        increments: &BTreeMap<String, String>,
    ) -> Result<Vec<(String, u64)>, String> {
        let fields = self.fields.len();
        if text.len() > fields * WIDTH || !text.len().is_multiple_of(WIDTH) {
            return Err(format!(
                "the String is not 0 to {fields} counters of {WIDTH} bytes"
            ));
        }
        let mut values = vec![0_i64; fields];
        for (value, bytes) in values.iter_mut().zip(text.chunks_exact(WIDTH)) {
            let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
            *value = i64::from(match self.endian {
                Endian::Big => u32::from_be_bytes(bytes),
                Endian::Little => u32::from_le_bytes(bytes),
            });
        }
        for (field, increment) in increments {
            let at = self
                .index(field)
                .ok_or_else(|| format!("increments: unknown field {}", shorten(field)))?;
            let limit = MAX_COUNT as i64;
            let increment = increment.parse::<i64>().ok();
            let increment = increment.filter(|number| (-limit..=limit).contains(number));
            values[at] += increment
                .ok_or_else(|| format!("increments: {} is out of range", shorten(field)))?;
        }
        let named = self.fields.iter().zip(values);
        named
            .filter_map(|(name, value)| Some((name.as_ref()?, value)))
            .map(|(name, value)| Ok((name.clone(), count(name, value)?)))
            .collect()
    }

    /// The index of a field of the Hash: its name is the index or the metric.
    fn index(&self, field: &str) -> Option<usize> {
        let number = field.parse::<usize>().ok();
        let named = || {
            let mut names = self.fields.iter();
            names.position(|name| name.as_deref() == Some(field))
        };
        number.filter(|at| *at < self.fields.len()).or_else(named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_counters_and_increments() {
        let packed = |endian| Packed {
            pattern: "c:{id}".parse().expect("a pattern"),
            fields: vec![Some("read".to_owned()), None, Some("comment".to_owned())],
            increments: None,
            endian,
        };
        let map = |pairs: &[(&str, &str)]| {
            let owned = pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            owned.collect::<BTreeMap<_, _>>()
        };
        let text = [0, 0, 1, 2, 9, 9, 9, 9, 0, 0, 0, 5];
        let big = packed(Endian::Big);
        let counts = big.counts(&text, &map(&[("0", "3"), ("comment", "-5")]));
        let pairs =
            |read, comment| vec![("read".to_owned(), read), ("comment".to_owned(), comment)];
        assert_eq!(counts, Ok(pairs(261, 0)));
        let little = packed(Endian::Little).counts(&text[..4], &map(&[]));
        assert_eq!(little, Ok(pairs(0x0201_0000, 0)));
        for (text, increments, problem) in [
            (&text[..3], map(&[]), "the String is not"),
            (&[0; 16][..], map(&[]), "the String is not"),
            (&text[..], map(&[("7", "1")]), "increments: unknown field 7"),
            (&text[..], map(&[("2", "-6")]), "comment: -1 is negative"),
            (
                &text[..],
                map(&[("2", "x")]),
                "increments: 2 is out of range",
            ),
        ] {
            let found = big.counts(text, &increments).expect_err(problem);
            assert!(found.starts_with(problem), "{found}");
        }
    }
}
