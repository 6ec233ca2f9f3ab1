//! Statements that repair the tables of a sink: an operator executes them as the owner of the database.

use super::error::{SinkError, TableLack};
use crate::database::{DatabasePlace, quoted};
use crate::domain::config::{DatabaseKind, SinkConfig};

/// A column of a table: its name, and its type in PostgreSQL and in MySQL.
type ColumnType = (&'static str, &'static str, &'static str);

/// A kind of table.
struct TableForm {
    columns: &'static [ColumnType],
    unique: &'static [&'static str],
    options: &'static str,
}

const DETAILS: TableForm = TableForm {
    columns: &[
        ("user_id", "bigint", "BIGINT UNSIGNED"),
        ("msg_id", "bigint", "BIGINT UNSIGNED"),
        ("create_time", "timestamptz", "DATETIME(3)"),
    ],
    unique: &["user_id", "msg_id"],
    options: "",
};
const COUNTS: TableForm = TableForm {
    columns: &[
        ("msg_id", "bigint", "BIGINT UNSIGNED"),
        ("count_key", "varchar(32)", ASCII_32),
        ("count_value", "bigint", "BIGINT"),
    ],
    unique: &["msg_id", "count_key"],
    options: " CHARACTER SET ascii COLLATE ascii_bin",
};
const STATES: TableForm = TableForm {
    columns: &[
        ("name", "varchar(64)", ASCII_64),
        ("value", "varchar(64)", ASCII_64),
    ],
    unique: &["name"],
    options: " CHARACTER SET ascii COLLATE ascii_bin",
};
const ASCII_32: &str = "VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin";
const ASCII_64: &str = "VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin";

/// The statements that repair what makes a table unusable. None if it is not a table.
pub fn repair(config: &SinkConfig, error: &SinkError) -> Vec<String> {
    let SinkError::Table { table, lack, .. } = error else {
        return Vec::new();
    };
    let Some(place) = DatabasePlace::of(&config.url) else {
        return Vec::new();
    };
    let is_of_details = config.details.iter().any(|of| of.table == *table);
    let is_of_counts = config.counts.iter().any(|of| of.table == *table);
    let form = match (is_of_details, is_of_counts) {
        (true, _) => DETAILS,
        (false, true) => COUNTS,
        (false, false) => STATES,
    };
    form.repair(&place, table, *lack)
}

impl TableForm {
    fn repair(&self, place: &DatabasePlace, name: &str, lack: TableLack) -> Vec<String> {
        let (kind, table) = (place.kind, quoted(place.kind, name));
        let user = place.quoted_user();
        let grant = format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {user}");
        match lack {
            TableLack::Table => vec![self.create(kind, &table), grant],
            TableLack::Permission => vec![grant],
            TableLack::Column(column) => {
                let of_type = self.type_of(kind, column);
                vec![format!("ALTER TABLE {table} ADD COLUMN {column} {of_type}")]
            }
            TableLack::Type(column) => {
                let of_type = self.type_of(kind, column);
                vec![match kind {
                    DatabaseKind::Postgres => format!(
                        "ALTER TABLE {table} ALTER COLUMN {column} TYPE {of_type} USING {column}::{of_type}"
                    ),
                    DatabaseKind::MySql => {
                        format!(
                            "ALTER TABLE {table} MODIFY COLUMN {column} {of_type}{}",
                            self.not_null(column)
                        )
                    }
                }]
            }
            TableLack::Unique(columns) => {
                let index = format!("{}_unique", name.replace('.', "_"));
                let columns = columns.join(", ");
                vec![format!(
                    "CREATE UNIQUE INDEX {index} ON {table} ({columns})"
                )]
            }
        }
    }

    fn create(&self, kind: DatabaseKind, table: &str) -> String {
        let columns = self.columns.iter().map(|(name, _, _)| {
            let of_type = self.type_of(kind, name);
            format!("{name} {of_type}{}", self.not_null(name))
        });
        let columns = columns.collect::<Vec<_>>().join(", ");
        let unique = self.unique.join(", ");
        let options = match kind {
            DatabaseKind::Postgres => "",
            DatabaseKind::MySql => self.options,
        };
        format!("CREATE TABLE IF NOT EXISTS {table} ({columns}, UNIQUE ({unique})){options}")
    }

    fn type_of(&self, kind: DatabaseKind, column: &str) -> &'static str {
        let found = self.columns.iter().find(|(name, _, _)| *name == column);
        match (kind, found) {
            (_, None) => "",
            (DatabaseKind::Postgres, Some((_, of_type, _)))
            | (DatabaseKind::MySql, Some((_, _, of_type))) => of_type,
        }
    }

    /// All columns but the time have values.
    fn not_null(&self, column: &str) -> &'static str {
        if column == "create_time" {
            ""
        } else {
            " NOT NULL"
        }
    }
}
