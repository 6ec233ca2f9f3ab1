//! A connection to the database, and the steps of a transaction.

use super::error::RelayError;
use super::row::{OutboxRow, storable};
use super::statements::Statements;
use crate::domain::config::{DatabaseKind, RelayConfig};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ColumnIndex, ConnectOptions, Database, Decode, Row};
use std::sync::Arc;
use std::time::Duration;

/// The SQLSTATE class of statements that cannot succeed: no such table or column, or no permission.
const INVALID_STATEMENT: &str = "42";

/// A connection. After an error it must be dropped: the server then rolls its transaction back.
pub struct Connection {
    driver: Driver,
    statements: Arc<Statements>,
    timeout: Duration,
}

enum Driver {
    Postgres(PgConnection),
    MySql(MySqlConnection),
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// The database is unavailable, or refuses the user.
    pub async fn open(
        kind: DatabaseKind,
        config: &RelayConfig,
        statements: &Arc<Statements>,
    ) -> Result<Connection, RelayError> {
        let url = config.url.expose();
        let timeout = config.timeout();
        let connected = async {
            Ok::<_, sqlx::Error>(match kind {
                DatabaseKind::Postgres => {
                    let options: PgConnectOptions = url.parse()?;
                    let options = options.application_name("countd relay");
                    // Statements have thousands of keys.
                    Driver::Postgres(options.disable_statement_logging().connect().await?)
                }
                DatabaseKind::MySql => {
                    let options: MySqlConnectOptions = url.parse()?;
                    Driver::MySql(options.disable_statement_logging().connect().await?)
                }
            })
        };
        let driver = tokio::time::timeout(timeout, connected).await;
        Ok(Connection {
            driver: driver.map_err(|_| RelayError::Timeout(timeout))??,
            statements: Arc::clone(statements),
            timeout,
        })
    }

    /// Checks that the tables have the columns.
    ///
    /// # Errors
    /// [`RelayError::Table`] if a table cannot be used; other errors if the database is unavailable.
    pub async fn check(&mut self) -> Result<(), RelayError> {
        for statement in self.statements.checks() {
            match self.execute(statement).await {
                Err(RelayError::Database(error)) if is_invalid_statement(&error) => {
                    return Err(RelayError::Table(error));
                }
                checked => checked?,
            };
        }
        Ok(())
    }

    /// Begins a transaction, and locks and reads the next rows.
    ///
    /// # Errors
    /// The database failed, or a key is not an integer.
    pub async fn begin(&mut self) -> Result<Vec<OutboxRow>, RelayError> {
        // Longer than the longest wait between two statements of a transaction: for Redis, and for the batches before.
        let idle = self.timeout.max(Duration::from_secs(30)) * 4;
        self.execute(self.statements.begin(idle)).await?;
        let statement = AssertSqlSafe(self.statements.next_rows());
        let rows = async {
            match &mut self.driver {
                Driver::Postgres(connection) => {
                    let rows = sqlx::raw_sql(statement).fetch_all(connection).await?;
                    rows.iter().map(decode).collect()
                }
                Driver::MySql(connection) => {
                    let rows = sqlx::raw_sql(statement).fetch_all(connection).await?;
                    rows.iter().map(decode).collect()
                }
            }
        };
        within(self.timeout, rows).await
    }

    /// Moves rows to the table of dead rows.
    ///
    /// # Errors
    /// The database failed.
    pub async fn set_aside(&mut self, dead: &[(i64, String)]) -> Result<(), RelayError> {
        for (key, reason) in dead {
            let (sql, reason) = (self.statements.copy_dead(), storable(reason));
            let sql = AssertSqlSafe(sql);
            let copied = async {
                Ok(match &mut self.driver {
                    Driver::Postgres(connection) => {
                        let copy = sqlx::query(sql).bind(reason).bind(*key);
                        copy.execute(connection).await?.rows_affected()
                    }
                    Driver::MySql(connection) => {
                        let copy = sqlx::query(sql).bind(reason).bind(*key);
                        copy.execute(connection).await?.rows_affected()
                    }
                })
            };
            check_changed(within(self.timeout, copied).await?, 1)?;
        }
        let keys: Vec<i64> = dead.iter().map(|(key, _)| *key).collect();
        self.change(self.statements.delete(&keys), keys.len()).await
    }

    /// Deletes or marks rows whose events are in the log.
    ///
    /// # Errors
    /// The database failed, or not all rows were changed.
    pub async fn settle(&mut self, keys: &[i64]) -> Result<(), RelayError> {
        self.change(self.statements.settle(keys), keys.len()).await
    }

    /// Commits the transaction.
    ///
    /// # Errors
    /// The database failed. Whether it has committed is unknown.
    pub async fn commit(&mut self) -> Result<(), RelayError> {
        self.execute("COMMIT".to_owned()).await.map(drop)
    }

    /// Rolls the transaction back.
    ///
    /// # Errors
    /// The database failed.
    pub async fn roll_back(&mut self) -> Result<(), RelayError> {
        self.execute("ROLLBACK".to_owned()).await.map(drop)
    }

    async fn change(&mut self, statement: String, rows: usize) -> Result<(), RelayError> {
        if rows == 0 {
            return Ok(());
        }
        check_changed(self.execute(statement).await?, rows as u64)
    }

    /// Executes a statement without parameters. Returns the number of rows that it changed.
    async fn execute(&mut self, statement: String) -> Result<u64, RelayError> {
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
}

/// Fails if a call to the database takes longer than the timeout.
async fn within<T>(
    timeout: Duration,
    call: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, RelayError> {
    let reply = tokio::time::timeout(timeout, call).await;
    Ok(reply.map_err(|_| RelayError::Timeout(timeout))??)
}

fn check_changed(changed: u64, expected: u64) -> Result<(), RelayError> {
    match changed == expected {
        true => Ok(()),
        false => Err(RelayError::Unsettled { changed, expected }),
    }
}

/// Whether a repetition of a statement cannot succeed.
fn is_invalid_statement(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.is_some_and(|code| code.starts_with(INVALID_STATEMENT))
}

/// Decodes a row of [`Statements::next_rows`]. A value that is not a text does not fail the batch.
fn decode<R: Row>(row: &R) -> Result<OutboxRow, sqlx::Error>
where
    usize: ColumnIndex<R>,
    for<'r> i64: Decode<'r, <R as Row>::Database>,
    for<'r> Option<String>: Decode<'r, <R as Row>::Database>,
    <R as Row>::Database: Database,
{
    let value = |at: usize| {
        let value = row.try_get_unchecked::<Option<String>, _>(at + 1);
        value.map_err(|_| "not a text in UTF-8".to_owned())
    };
    Ok(OutboxRow {
        key: row.try_get_unchecked(0)?,
        values: std::array::from_fn(value),
    })
}
