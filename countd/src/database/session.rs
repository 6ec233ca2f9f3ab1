//! A connection to a database.

use super::error::DatabaseError;
use crate::domain::config::{DatabaseKind, DatabaseUrl};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlRow};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Row};
use std::time::Duration;

/// A connection. After an error it must be dropped: the server then rolls its transaction back.
pub struct Session {
    /// The connection of the driver.
    pub driver: Driver,
    timeout: Duration,
}

/// The connection of each driver.
pub enum Driver {
    /// To PostgreSQL.
    Postgres(PgConnection),
    /// To MySQL or MariaDB.
    MySql(MySqlConnection),
}

/// A row of texts; `None` is NULL.
pub type TextRow = Vec<Option<String>>;

impl Session {
    /// Connects. `name` is that of the application, for the database's own lists of sessions. `timeout` also limits each statement.
    ///
    /// # Errors
    /// The database is unavailable, or refuses the user.
    pub async fn open(
        kind: DatabaseKind,
        url: &DatabaseUrl,
        name: &str,
        timeout: Duration,
    ) -> Result<Session, DatabaseError> {
        let connected = async {
            Ok::<_, sqlx::Error>(match kind {
                DatabaseKind::Postgres => {
                    let options: PgConnectOptions = url.expose().parse()?;
                    let options = options.application_name(name);
                    // Statements have thousands of keys.
                    Driver::Postgres(options.disable_statement_logging().connect().await?)
                }
                DatabaseKind::MySql => {
                    let options: MySqlConnectOptions = url.expose().parse()?;
                    Driver::MySql(options.disable_statement_logging().connect().await?)
                }
            })
        };
        Ok(Session {
            driver: within(timeout, connected).await?,
            timeout,
        })
    }

    /// The timeout of each statement.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Begins a transaction. A stricter isolation would fail under load (PostgreSQL), or lock gaps in which clients insert (MySQL). In `idle` the
    /// server ends a transaction whose client has vanished.
    ///
    /// # Errors
    /// The database failed.
    pub async fn begin(&mut self, idle: Duration) -> Result<(), DatabaseError> {
        let statement = match self.driver {
            Driver::Postgres(_) => format!(
                "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = {}",
                idle.as_millis()
            ),
            Driver::MySql(_) => format!(
                "SET SESSION wait_timeout = {}; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION",
                idle.as_secs().max(1)
            ),
        };
        self.execute(statement).await.map(drop)
    }

    /// Commits the transaction.
    ///
    /// # Errors
    /// The database failed. Whether it has committed is unknown.
    pub async fn commit(&mut self) -> Result<(), DatabaseError> {
        self.execute("COMMIT".to_owned()).await.map(drop)
    }

    /// Rolls the transaction back.
    ///
    /// # Errors
    /// The database failed.
    pub async fn roll_back(&mut self) -> Result<(), DatabaseError> {
        self.execute("ROLLBACK".to_owned()).await.map(drop)
    }

    /// Executes statements without parameters. Returns the number of rows that they changed.
    ///
    /// # Errors
    /// The database failed.
    pub async fn execute(&mut self, statement: String) -> Result<u64, DatabaseError> {
        let statement = sqlx::raw_sql(AssertSqlSafe(statement));
        let executed = async {
            Ok(match &mut self.driver {
                Driver::Postgres(connection) => {
                    statement.execute(connection).await?.rows_affected()
                }
                Driver::MySql(connection) => statement.execute(connection).await?.rows_affected(),
            })
        };
        within(self.timeout, executed).await
    }

    /// The rows of a query without parameters, whose columns are texts.
    ///
    /// # Errors
    /// The database failed, or a value is not a text.
    pub async fn texts(&mut self, query: String) -> Result<Vec<TextRow>, DatabaseError> {
        let query = sqlx::raw_sql(AssertSqlSafe(query));
        let of_postgres = |row: &PgRow| -> Result<TextRow, sqlx::Error> {
            (0..row.len()).map(|at| row.try_get_unchecked(at)).collect()
        };
        let of_mysql = |row: &MySqlRow| -> Result<TextRow, sqlx::Error> {
            (0..row.len()).map(|at| row.try_get_unchecked(at)).collect()
        };
        let fetched = async {
            match &mut self.driver {
                Driver::Postgres(connection) => {
                    let rows = query.fetch_all(connection).await?;
                    rows.iter().map(of_postgres).collect()
                }
                Driver::MySql(connection) => {
                    let rows = query.fetch_all(connection).await?;
                    rows.iter().map(of_mysql).collect()
                }
            }
        };
        within(self.timeout, fetched).await
    }
}

/// Fails if a call to the database takes longer than the timeout.
///
/// # Errors
/// The error of the call, or the timeout.
pub async fn within<T>(
    timeout: Duration,
    call: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, DatabaseError> {
    let reply = tokio::time::timeout(timeout, call).await;
    Ok(reply.map_err(|_| DatabaseError::Timeout(timeout))??)
}

/// A name, optionally with that of a schema or a database before it, as the database quotes it. The configuration permits only letters, digits
/// and `_`.
pub fn quoted(kind: DatabaseKind, name: &str) -> String {
    let parts = name.split('.').map(|part| match kind {
        DatabaseKind::Postgres => format!("\"{part}\""),
        DatabaseKind::MySql => format!("`{part}`"),
    });
    parts.collect::<Vec<_>>().join(".")
}
