//! The SQL statements on the tables. Names come from the configuration, which permits only letters, digits and `_`; ids have no character that
//! must be escaped.

use super::tables::{Counts, Details, Tables, quoted_text};
use crate::database::quoted;
use crate::domain::config::DatabaseKind;
use crate::domain::ids::Name;

/// The name of the row with the process that leads.
pub const LEADER: &str = "leader";
/// The name of the row with the origin of the rows: the settings, and the servers.
pub const ORIGIN: &str = "origin";
/// The name of the row that exists while a pass is needed.
pub const PASS: &str = "pass";
/// The prefix of the names of the rows with offsets in the logs.
pub const LOG: &str = "log:";
/// The prefix of the names of the rows with offsets in the topic.
pub const TOPIC: &str = "topic:";

/// A fact of a row: the user, the entity, and its time in milliseconds since 1970 if it is known. Ids are SQL.
pub type FactRow = (String, String, Option<u64>);
/// A counter of a row: the entity as SQL, the name and the value.
pub type CountRow<'a> = (String, &'a Name, u64);
/// The place in a table after which a page begins: the values of the unique columns as SQL.
pub type After = Option<(String, String)>;

impl Tables {
    fn quoted(&self, name: &str) -> String {
        quoted(self.kind, name)
    }

    /// Writes facts. The time of a row stays if that of the fact is unknown.
    pub fn upsert_facts(&self, details: &Details, rows: &[FactRow]) -> String {
        let values = rows.iter().map(|(user, entity, time)| {
            let time = match (time, self.kind) {
                (None, _) => "NULL".to_owned(),
                (Some(ms), DatabaseKind::Postgres) => format!("to_timestamp({ms} / 1000.0)"),
                (Some(ms), DatabaseKind::MySql) => format!("FROM_UNIXTIME({ms} / 1000.0)"),
            };
            format!("({user}, {entity}, {time})")
        });
        let values = values.collect::<Vec<_>>().join(", ");
        let (table, columns) = (
            self.quoted(&details.of.table),
            "user_id, msg_id, create_time",
        );
        match self.kind {
            DatabaseKind::Postgres => format!(
                "INSERT INTO {table} AS t ({columns}) VALUES {values} ON CONFLICT (user_id, msg_id) DO UPDATE \
                 SET create_time = EXCLUDED.create_time \
                 WHERE EXCLUDED.create_time IS NOT NULL AND t.create_time IS DISTINCT FROM EXCLUDED.create_time"
            ),
            DatabaseKind::MySql => format!(
                "INSERT INTO {table} ({columns}) VALUES {values} ON DUPLICATE KEY UPDATE \
                 create_time = COALESCE(VALUES(create_time), create_time)"
            ),
        }
    }

    /// Deletes a fact.
    pub fn delete_fact(&self, details: &Details, user: &str, entity: &str) -> String {
        let table = self.quoted(&details.of.table);
        format!("DELETE FROM {table} WHERE user_id = {user} AND msg_id = {entity}")
    }

    /// Writes counters.
    pub fn upsert_counts(&self, counts: &Counts, rows: &[CountRow<'_>]) -> String {
        let values = rows
            .iter()
            .map(|(entity, name, value)| format!("({entity}, '{name}', {value})"));
        let values = values.collect::<Vec<_>>().join(", ");
        let (table, columns) = (
            self.quoted(&counts.of.table),
            "msg_id, count_key, count_value",
        );
        match self.kind {
            DatabaseKind::Postgres => format!(
                "INSERT INTO {table} AS t ({columns}) VALUES {values} ON CONFLICT (msg_id, count_key) DO UPDATE \
                 SET count_value = EXCLUDED.count_value WHERE t.count_value IS DISTINCT FROM EXCLUDED.count_value"
            ),
            DatabaseKind::MySql => format!(
                "INSERT INTO {table} ({columns}) VALUES {values} ON DUPLICATE KEY UPDATE \
                 count_value = VALUES(count_value)"
            ),
        }
    }

    /// Deletes the counters of an entity but these.
    pub fn delete_counts(&self, counts: &Counts, entity: &str, kept: &[&Name]) -> String {
        let table = self.quoted(&counts.of.table);
        let kept = kept.iter().map(|name| format!("'{name}'"));
        let kept = kept.collect::<Vec<_>>().join(", ");
        match kept.is_empty() {
            true => format!("DELETE FROM {table} WHERE msg_id = {entity}"),
            false => {
                format!("DELETE FROM {table} WHERE msg_id = {entity} AND count_key NOT IN ({kept})")
            }
        }
    }

    /// A page of the facts of a table: user and entity.
    pub fn facts_after(&self, details: &Details, after: &After, limit: usize) -> String {
        self.page(&details.of.table, ["user_id", "msg_id"], after, limit)
    }

    /// A page of the counters of a table: entity and name.
    pub fn counts_after(&self, counts: &Counts, after: &After, limit: usize) -> String {
        self.page(&counts.of.table, ["msg_id", "count_key"], after, limit)
    }

    /// The states of the sink: names and values.
    pub fn states(&self) -> String {
        let (name, value) = (self.text("name"), self.text("value"));
        format!("SELECT {name}, {value} FROM {}", self.quoted(&self.state))
    }

    /// The process that leads.
    pub fn leader(&self, locks: bool) -> String {
        let value = self.text("value");
        let state = self.quoted(&self.state);
        let lock = if locks { " FOR UPDATE" } else { "" };
        format!("SELECT {value} FROM {state} WHERE name = '{LEADER}'{lock}")
    }

    /// Writes states.
    pub fn set_states(&self, states: &[(String, String)]) -> String {
        let values = states.iter().map(|(name, value)| {
            let (name, value) = (quoted_text(self.kind, name), quoted_text(self.kind, value));
            format!("({name}, {value})")
        });
        let values = values.collect::<Vec<_>>().join(", ");
        let update = match self.kind {
            DatabaseKind::Postgres => "ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value",
            DatabaseKind::MySql => "ON DUPLICATE KEY UPDATE value = VALUES(value)",
        };
        let state = self.quoted(&self.state);
        format!("INSERT INTO {state} (name, value) VALUES {values} {update}")
    }

    /// Deletes a state.
    pub fn delete_state(&self, name: &str) -> String {
        let state = self.quoted(&self.state);
        format!("DELETE FROM {state} WHERE name = '{name}'")
    }

    fn text(&self, column: &str) -> String {
        match self.kind {
            DatabaseKind::Postgres => format!("{column}::text"),
            DatabaseKind::MySql => format!("CAST({column} AS CHAR)"),
        }
    }

    fn page(&self, table: &str, [first, second]: [&str; 2], after: &After, limit: usize) -> String {
        let columns = [first, second].map(|column| self.text(column)).join(", ");
        // MySQL does not use an index for a comparison of rows.
        let condition = after.as_ref().map(|(a, b)| {
            format!(" WHERE t.{first} >= {a} AND (t.{first} > {a} OR t.{second} > {b})")
        });
        let condition = condition.unwrap_or_default();
        format!(
            "SELECT {columns} FROM {} t{condition} ORDER BY t.{first}, t.{second} LIMIT {limit}",
            self.quoted(table)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::config::{CountTable, DetailTable};
    use crate::sink::tables::IdColumn;

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    fn tables(kind: DatabaseKind) -> Tables {
        Tables {
            kind,
            details: vec![Details {
                of: DetailTable {
                    etype: name("note"),
                    metric: name("like"),
                    table: "shop.likes".to_owned(),
                },
                user: IdColumn::Integer(u64::MAX),
                entity: IdColumn::Text,
            }],
            counts: vec![Counts {
                of: CountTable {
                    etype: name("note"),
                    table: "t_count".to_owned(),
                },
                entity: IdColumn::Integer(u64::MAX),
            }],
            state: "state".to_owned(),
        }
    }

    #[test]
    fn a_row_without_a_time_keeps_the_time_that_is_stored() {
        for kind in [DatabaseKind::Postgres, DatabaseKind::MySql] {
            let tables = tables(kind);
            let rows = [
                ("1".to_owned(), "'a-7'".to_owned(), Some(1_500)),
                ("2".to_owned(), "'a-7'".to_owned(), None),
            ];
            let statement = tables.upsert_facts(&tables.details[0], &rows);
            assert!(statement.contains("1500 / 1000.0"), "{statement}");
            assert!(statement.contains("(2, 'a-7', NULL)"), "{statement}");
            let keeps = ["IS NOT NULL", "COALESCE("];
            assert!(keeps.iter().any(|part| statement.contains(part)));
        }
    }

    #[test]
    fn pages_continue_after_a_row() {
        let tables = tables(DatabaseKind::MySql);
        let after = Some(("7".to_owned(), "'like'".to_owned()));
        assert_eq!(
            tables.counts_after(&tables.counts[0], &after, 5),
            "SELECT CAST(msg_id AS CHAR), CAST(count_key AS CHAR) FROM `t_count` t WHERE t.msg_id >= 7 AND (t.msg_id > 7 OR \
             t.count_key > 'like') ORDER BY t.msg_id, t.count_key LIMIT 5"
        );
        assert_eq!(
            tables.states(),
            "SELECT CAST(name AS CHAR), CAST(value AS CHAR) FROM `state`"
        );
    }

    #[test]
    fn counters_of_0_are_deleted() {
        let tables = tables(DatabaseKind::Postgres);
        let delete = |kept: &[&Name]| tables.delete_counts(&tables.counts[0], "7", kept);
        assert_eq!(delete(&[]), "DELETE FROM \"t_count\" WHERE msg_id = 7");
        let (like, read) = (name("like"), name("read"));
        assert!(delete(&[&like, &read]).ends_with("AND count_key NOT IN ('like', 'read')"));
    }
}
