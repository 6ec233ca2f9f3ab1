//! Where a database is, without the password.

use crate::domain::config::{DatabaseKind, DatabaseUrl};
use sqlx::mysql::MySqlConnectOptions;
use sqlx::postgres::PgConnectOptions;

/// Where a database is, and as whom countd connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabasePlace {
    /// The kind of the database.
    pub kind: DatabaseKind,
    /// The host of the server.
    pub host: String,
    /// The port of the server.
    pub port: u16,
    /// The name of the database.
    pub database: String,
    /// The user.
    pub user: String,
}

impl DatabasePlace {
    /// The place of a URL. `None` if the URL is invalid.
    pub fn of(url: &DatabaseUrl) -> Option<DatabasePlace> {
        let kind = url.kind()?;
        match kind {
            DatabaseKind::Postgres => {
                let options: PgConnectOptions = url.expose().parse().ok()?;
                let user = options.get_username().to_owned();
                Some(DatabasePlace {
                    kind,
                    host: options.get_host().to_owned(),
                    port: options.get_port(),
                    database: options.get_database().unwrap_or(&user).to_owned(),
                    user,
                })
            }
            DatabaseKind::MySql => {
                let options: MySqlConnectOptions = url.expose().parse().ok()?;
                Some(DatabasePlace {
                    kind,
                    host: options.get_host().to_owned(),
                    port: options.get_port(),
                    database: options.get_database().unwrap_or_default().to_owned(),
                    user: options.get_username().to_owned(),
                })
            }
        }
    }

    /// The user as a statement names them.
    pub fn quoted_user(&self) -> String {
        match self.kind {
            DatabaseKind::Postgres => format!("\"{}\"", self.user.replace('"', "\"\"")),
            DatabaseKind::MySql => format!("'{}'@'%'", self.user.replace('\'', "''")),
        }
    }
}
