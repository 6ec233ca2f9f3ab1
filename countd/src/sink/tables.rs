//! The tables of a sink, and how ids are written to their columns.

use crate::domain::config::{CountTable, DatabaseKind, DetailTable, SinkConfig};
use crate::domain::ids::{Id, Name};

/// A column of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdColumn {
    /// A text.
    Text,
    /// An integer up to this value.
    Integer(u64),
}

impl IdColumn {
    /// The id as SQL; `None` if the column cannot hold it.
    pub fn literal(self, id: &Id) -> Option<String> {
        match self {
            // An id has no character that must be escaped.
            IdColumn::Text => Some(format!("'{id}'")),
            IdColumn::Integer(max) => id
                .number()
                .filter(|number| *number <= max)
                .map(|number| number.to_string()),
        }
    }

    /// A value that was read from the column, as SQL.
    pub fn stored_literal(self, kind: DatabaseKind, value: &str) -> String {
        match self {
            IdColumn::Text => quoted_text(kind, value),
            IdColumn::Integer(_) => value.to_owned(),
        }
    }
}

/// A text as SQL.
pub fn quoted_text(kind: DatabaseKind, text: &str) -> String {
    let text = text.replace('\'', "''");
    match kind {
        DatabaseKind::Postgres => format!("'{text}'"),
        DatabaseKind::MySql => format!("'{}'", text.replace('\\', "\\\\")),
    }
}

/// A table with a row for each fact.
#[derive(Clone, Debug)]
pub struct Details {
    /// The setting.
    pub of: DetailTable,
    /// The column `user_id`.
    pub user: IdColumn,
    /// The column `msg_id`.
    pub entity: IdColumn,
}

/// A table with a row for each counter that is not 0.
#[derive(Clone, Debug)]
pub struct Counts {
    /// The setting.
    pub of: CountTable,
    /// The column `msg_id`.
    pub entity: IdColumn,
}

/// The tables of a sink.
#[derive(Clone, Debug)]
pub struct Tables {
    /// The kind of the database.
    pub kind: DatabaseKind,
    /// The tables of facts.
    pub details: Vec<Details>,
    /// The tables of counters.
    pub counts: Vec<Counts>,
    /// The name of the table of states.
    pub state: String,
}

impl Tables {
    /// The table of the counters of a type, with its number.
    pub fn counts_of(&self, etype: &Name) -> Option<(usize, &Counts)> {
        let mut counts = self.counts.iter().enumerate();
        counts.find(|(_, counts)| counts.of.etype == *etype)
    }

    /// The number of the table of the facts of a metric on entities of a type.
    pub fn details_of(&self, etype: &Name, metric: &Name) -> Option<usize> {
        let is_of = |details: &Details| details.of.etype == *etype && details.of.metric == *metric;
        self.details.iter().position(is_of)
    }
}

/// Identifies the settings that decide what the tables contain.
pub fn fingerprint(config: &SinkConfig) -> String {
    let text = format!("{:?} {:?}", config.details, config.counts);
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_of_integers_holds_only_canonical_numbers_in_its_range() {
        let literal = |column: IdColumn, id: &str| column.literal(&Id::new(id).expect("an ID"));
        let signed = IdColumn::Integer(i64::MAX as u64);
        assert_eq!(literal(signed, "42").as_deref(), Some("42"));
        for other in ["042", "a-7", "9223372036854775808"] {
            assert_eq!(literal(signed, other), None, "{other}");
        }
        let unsigned = IdColumn::Integer(u64::MAX);
        assert!(literal(unsigned, "9223372036854775808").is_some());
        assert_eq!(literal(IdColumn::Text, "042").as_deref(), Some("'042'"));
    }

    #[test]
    fn texts_of_the_database_are_escaped() {
        let quoted = |kind| quoted_text(kind, r"it's a \");
        assert_eq!(quoted(DatabaseKind::Postgres), r"'it''s a \'");
        assert_eq!(quoted(DatabaseKind::MySql), r"'it''s a \\'");
    }
}
