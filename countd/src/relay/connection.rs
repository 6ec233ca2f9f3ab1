//! The steps of a transaction.

use super::error::RelayError;
use super::row::{OutboxRow, storable};
use super::statements::Statements;
use crate::database::{Driver, Session, within};
use crate::domain::config::{DatabaseKind, RelayConfig};
use sqlx::{AssertSqlSafe, ColumnIndex, Database, Decode, Row};
use std::sync::Arc;
use std::time::Duration;

/// A connection. After an error it must be dropped: the server then rolls its transaction back.
pub struct Connection {
    session: Session,
    statements: Arc<Statements>,
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
        let session = Session::open(kind, &config.url, "countd relay", config.timeout());
        Ok(Connection {
            session: session.await?,
            statements: Arc::clone(statements),
        })
    }

    /// Checks that the tables have the columns, and with `for_writing` that the user may change them.
    ///
    /// # Errors
    /// [`RelayError::Table`] if a table cannot be used; other errors if the database is unavailable.
    pub async fn check(&mut self, for_writing: bool) -> Result<(), RelayError> {
        let mut checks = self.statements.read_checks();
        if for_writing {
            checks.append(&mut self.statements.write_checks());
        }
        for (table, statement) in checks {
            match self.session.execute(statement).await {
                Err(error) if error.is_invalid_statement() => {
                    return Err(RelayError::Table { table, error });
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
        let timeout = self.session.timeout();
        self.session
            .begin(timeout.max(Duration::from_secs(30)) * 4)
            .await?;
        let statement = AssertSqlSafe(self.statements.next_rows());
        let rows = async {
            match &mut self.session.driver {
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
        Ok(within(timeout, rows).await?)
    }

    /// Moves rows to the table of dead rows.
    ///
    /// # Errors
    /// The database failed.
    pub async fn set_aside(&mut self, dead: &[(i64, String)]) -> Result<(), RelayError> {
        let timeout = self.session.timeout();
        for (key, reason) in dead {
            let (sql, reason) = (self.statements.copy_dead(), storable(reason));
            let sql = AssertSqlSafe(sql);
            let copied = async {
                Ok(match &mut self.session.driver {
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
            check_changed(within(timeout, copied).await?, 1)?;
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
        Ok(self.session.commit().await?)
    }

    /// Rolls the transaction back.
    ///
    /// # Errors
    /// The database failed.
    pub async fn roll_back(&mut self) -> Result<(), RelayError> {
        Ok(self.session.roll_back().await?)
    }

    async fn change(&mut self, statement: String, rows: usize) -> Result<(), RelayError> {
        if rows == 0 {
            return Ok(());
        }
        check_changed(self.session.execute(statement).await?, rows as u64)
    }
}

fn check_changed(changed: u64, expected: u64) -> Result<(), RelayError> {
    match changed == expected {
        true => Ok(()),
        false => Err(RelayError::Unsettled { changed, expected }),
    }
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
