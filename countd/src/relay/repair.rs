//! Statements that repair the tables of a relay: an operator executes them as the owner of the database.

use super::error::RelayError;
use super::statements::COLUMNS;
use crate::database::{DatabasePlace, Refusal, quoted};
use crate::domain::config::{DatabaseKind, RelayConfig, SentRows};

/// The types of the columns of an event, in the order of [`COLUMNS`].
const TYPES: [&str; 5] = [
    "varchar(64) NOT NULL UNIQUE",
    "varchar(256) NOT NULL",
    "varchar(32) NOT NULL",
    "varchar(64) NOT NULL",
    "text NOT NULL",
];

/// The statements that repair what makes the tables unusable. None if there is no general repair.
pub fn repair(config: &RelayConfig, error: &RelayError) -> Vec<String> {
    let RelayError::Table { table, error } = error else {
        return Vec::new();
    };
    let Some(place) = DatabasePlace::of(&config.url) else {
        return Vec::new();
    };
    let tables = OutboxTables::new(place, config);
    match error.refusal() {
        Some(Refusal::Table) => tables.create(),
        Some(Refusal::Column) => tables.add_column(table, &error.to_string()),
        Some(Refusal::Permission) => tables.grant(),
        _ => Vec::new(),
    }
}

/// The tables of a relay.
struct OutboxTables<'a> {
    place: DatabasePlace,
    config: &'a RelayConfig,
    outbox: String,
    dead: String,
}

impl OutboxTables<'_> {
    fn new(place: DatabasePlace, config: &RelayConfig) -> OutboxTables<'_> {
        let kind = place.kind;
        OutboxTables {
            outbox: quoted(kind, &config.table),
            dead: quoted(kind, &format!("{}_dead", config.table)),
            place,
            config,
        }
    }

    /// The columns of the outbox with their types: the key, those of the event, and the mark.
    fn columns(&self) -> Vec<(&str, &str)> {
        let key = self.config.key.as_str();
        let key_type = match self.place.kind {
            DatabaseKind::Postgres => "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
            DatabaseKind::MySql => "BIGINT AUTO_INCREMENT PRIMARY KEY",
        };
        let mut columns: Vec<(&str, &str)> = COLUMNS.into_iter().zip(TYPES).collect();
        match columns.iter_mut().find(|(name, _)| *name == key) {
            Some(column) => column.1 = key_type,
            None => columns.insert(0, (key, key_type)),
        }
        if self.config.sent == SentRows::Mark {
            columns.push(("sent_at", self.time()));
        }
        columns
    }

    /// The columns of the dead rows with their types.
    fn dead_columns(&self) -> Vec<(&str, &str)> {
        let columns = COLUMNS.into_iter().map(|name| match self.place.kind {
            DatabaseKind::MySql if name == "payload" => (name, "LONGTEXT"),
            _ => (name, "text"),
        });
        let dead_at = match self.place.kind {
            DatabaseKind::Postgres => "timestamptz NOT NULL DEFAULT now()",
            DatabaseKind::MySql => "TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP",
        };
        let more = [("reason", "text NOT NULL"), ("dead_at", dead_at)];
        columns.chain(more).collect()
    }

    fn time(&self) -> &'static str {
        match self.place.kind {
            DatabaseKind::Postgres => "timestamptz",
            DatabaseKind::MySql => "TIMESTAMP NULL",
        }
    }

    fn create(&self) -> Vec<String> {
        let tables = [
            (&self.outbox, self.columns()),
            (&self.dead, self.dead_columns()),
        ];
        let options = match self.place.kind {
            DatabaseKind::Postgres => "",
            DatabaseKind::MySql => " CHARACTER SET utf8mb4",
        };
        let statements = tables.map(|(table, columns)| {
            let columns = columns.iter();
            let columns = columns.map(|(name, of_type)| format!("{name} {of_type}"));
            let columns = columns.collect::<Vec<_>>().join(", ");
            format!("CREATE TABLE IF NOT EXISTS {table} ({columns}){options}")
        });
        statements.into_iter().chain(self.grant()).collect()
    }

    /// Adds the column that the error names.
    fn add_column(&self, table: &str, error: &str) -> Vec<String> {
        let columns = match table == self.dead {
            true => self.dead_columns(),
            false => self.columns(),
        };
        let is_named = |name: &str| {
            [("\"", "\""), ("'", "'"), ("`", "`")]
                .iter()
                .any(|(open, close)| error.contains(&format!("{open}{name}{close}")))
        };
        let missing = columns.iter().filter(|(name, _)| is_named(name));
        missing
            .map(|(name, of_type)| format!("ALTER TABLE {table} ADD COLUMN {name} {of_type}"))
            .collect()
    }

    fn grant(&self) -> Vec<String> {
        let user = self.place.quoted_user();
        vec![
            format!("GRANT SELECT, UPDATE, DELETE ON {} TO {user}", self.outbox),
            format!("GRANT SELECT, INSERT ON {} TO {user}", self.dead),
        ]
    }
}
