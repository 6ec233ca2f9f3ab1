//! The SQL statements on the outbox table. Names come from the configuration, which permits only letters, digits and `_`; keys are
//! integers. All other values are parameters.

use crate::database::quoted;
use crate::domain::config::{DatabaseKind, RelayConfig, SentRows};
use std::fmt::Write;

/// The columns of an event, in the order of [`OutboxRow`](super::row::OutboxRow).
pub const COLUMNS: [&str; 5] = [
    "event_id",
    "event_type",
    "aggregate_type",
    "aggregate_id",
    "payload",
];

/// The statements for one outbox table.
pub struct Statements {
    kind: DatabaseKind,
    table: String,
    dead: String,
    key: String,
    sent: SentRows,
    batch: usize,
}

impl Statements {
    /// The statements for the configured table.
    pub fn new(kind: DatabaseKind, config: &RelayConfig) -> Statements {
        let quoted = |name: &str| quoted(kind, name);
        Statements {
            kind,
            table: quoted(&config.table),
            dead: quoted(&format!("{}_dead", config.table)),
            key: quoted(&config.key),
            sent: config.sent,
            batch: config.batch,
        }
    }

    /// Statements that fail if a table or a column is missing, or if the user may not read it, each with the table. They change nothing.
    pub fn read_checks(&self) -> Vec<(String, String)> {
        let (columns, key) = (COLUMNS.join(", "), &self.key);
        let (table, dead) = (&self.table, &self.dead);
        let mark = match self.sent {
            SentRows::Delete => "",
            SentRows::Mark => ", sent_at",
        };
        let checks = [
            (
                table,
                format!("SELECT {key}, {columns}{mark} FROM {table} WHERE 1 = 0"),
            ),
            (
                dead,
                format!("SELECT {columns}, reason FROM {dead} WHERE 1 = 0"),
            ),
        ];
        checks.map(|(of, check)| (of.clone(), check)).into()
    }

    /// Statements that fail if the user may not lock or change rows, each with the table. They change nothing. `EXPLAIN` needs the
    /// permissions of its statement and does not execute it, but it waits for locks of the tables, so a relay does not do this at its start.
    pub fn write_checks(&self) -> Vec<(String, String)> {
        let (columns, key) = (COLUMNS.join(", "), &self.key);
        let (table, dead) = (&self.table, &self.dead);
        let mut checks = vec![
            (
                table,
                format!("SELECT {key} FROM {table} WHERE 1 = 0 FOR UPDATE"),
            ),
            (table, format!("EXPLAIN DELETE FROM {table} WHERE 1 = 0")),
            (
                dead,
                format!(
                    "EXPLAIN INSERT INTO {dead} ({columns}, reason) SELECT {columns}, '' FROM {table} WHERE 1 = 0"
                ),
            ),
        ];
        if self.sent == SentRows::Mark {
            let mark = format!("EXPLAIN UPDATE {table} SET sent_at = sent_at WHERE 1 = 0");
            checks.push((table, mark));
        }
        let checks = checks.into_iter();
        checks.map(|(of, check)| (of.clone(), check)).collect()
    }

    /// Locks and reads the next rows: the key, and the columns as text.
    pub fn next_rows(&self) -> String {
        let key = &self.key;
        // Without aliases, ORDER BY could mean the converted column.
        let columns = COLUMNS
            .iter()
            .enumerate()
            .map(|(at, column)| match self.kind {
                DatabaseKind::Postgres => format!("{column}::text AS c{at}"),
                DatabaseKind::MySql => format!("CAST({column} AS CHAR) AS c{at}"),
            });
        let columns = columns.collect::<Vec<_>>().join(", ");
        let key_value = match self.kind {
            DatabaseKind::Postgres => format!("{key}::bigint"),
            DatabaseKind::MySql => format!("CAST({key} AS SIGNED)"),
        };
        let unsent = match self.sent {
            SentRows::Delete => "",
            SentRows::Mark => " WHERE sent_at IS NULL",
        };
        format!(
            "SELECT {key_value} AS k, {columns} FROM {}{unsent} ORDER BY {key} LIMIT {} FOR UPDATE SKIP LOCKED",
            self.table, self.batch
        )
    }

    /// Deletes or marks rows whose events are in the log.
    pub fn settle(&self, keys: &[i64]) -> String {
        match self.sent {
            SentRows::Delete => self.delete(keys),
            SentRows::Mark => {
                let mark = format!("UPDATE {} SET sent_at = CURRENT_TIMESTAMP", self.table);
                self.of_keys(&mark, keys)
            }
        }
    }

    /// Copies a row to the table of dead rows. Parameters: the reason, and the key.
    pub fn copy_dead(&self) -> String {
        let columns = COLUMNS.join(", ");
        let (reason, key) = match self.kind {
            DatabaseKind::Postgres => ("$1", "$2"),
            DatabaseKind::MySql => ("?", "?"),
        };
        format!(
            "INSERT INTO {} ({columns}, reason) SELECT {columns}, {reason} FROM {} WHERE {} = {key}",
            self.dead, self.table, self.key
        )
    }

    /// Deletes rows.
    pub fn delete(&self, keys: &[i64]) -> String {
        self.of_keys(&format!("DELETE FROM {}", self.table), keys)
    }

    /// One statement for all keys. MySQL gets one for each, in one packet: with a list it may scan the table instead, wait for the rows of
    /// other connections, and end one of them as a deadlock.
    fn of_keys(&self, change: &str, keys: &[i64]) -> String {
        let (mut statements, column) = (String::new(), &self.key);
        // Writing to a String cannot fail.
        match self.kind {
            DatabaseKind::Postgres => {
                let keys: Vec<String> = keys.iter().map(i64::to_string).collect();
                let _ = write!(
                    statements,
                    "{change} WHERE {column} IN ({})",
                    keys.join(",")
                );
            }
            DatabaseKind::MySql => {
                for key in keys {
                    let _ = write!(statements, "{change} WHERE {column} = {key};");
                }
            }
        }
        statements
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::config::Config;

    fn statements(kind: DatabaseKind, settings: &str) -> Statements {
        let config = Config::parse(&format!("[relay]\n{settings}")).expect("valid");
        Statements::new(kind, &config.relay)
    }

    #[test]
    fn names_are_quoted_as_the_database_does() {
        let settings = "table = \"shop.outbox\"\nkey = \"event_id\"\nsent = \"mark\"\nbatch = 7";
        let postgres = statements(DatabaseKind::Postgres, settings);
        assert_eq!(
            postgres.next_rows(),
            "SELECT \"event_id\"::bigint AS k, event_id::text AS c0, event_type::text AS c1, aggregate_type::text AS c2, \
             aggregate_id::text AS c3, payload::text AS c4 FROM \"shop\".\"outbox\" WHERE sent_at IS NULL ORDER BY \"event_id\" \
             LIMIT 7 FOR UPDATE SKIP LOCKED"
        );
        let mysql = statements(DatabaseKind::MySql, settings);
        assert_eq!(
            mysql.settle(&[3, -4]),
            "UPDATE `shop`.`outbox` SET sent_at = CURRENT_TIMESTAMP WHERE `event_id` = 3;\
             UPDATE `shop`.`outbox` SET sent_at = CURRENT_TIMESTAMP WHERE `event_id` = -4;"
        );
        assert!(
            mysql
                .copy_dead()
                .starts_with("INSERT INTO `shop`.`outbox_dead` (event_id, ")
        );
    }

    #[test]
    fn without_marks_no_further_column_is_needed() {
        let postgres = statements(DatabaseKind::Postgres, "");
        let all = [
            postgres.next_rows(),
            postgres.settle(&[1]),
            format!("{:?}", postgres.read_checks()),
        ];
        assert!(!all.concat().contains("sent_at"), "{all:?}");
        assert_eq!(
            postgres.settle(&[1, 2]),
            "DELETE FROM \"event_outbox\" WHERE \"id\" IN (1,2)"
        );
    }
}
