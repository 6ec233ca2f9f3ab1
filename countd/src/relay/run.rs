//! The connections of a relay: each reads the next rows, sends them and settles them, until the process stops.

use super::connection::Connection;
use super::error::RelayError;
use super::row::OutboxRow;
use super::statements::Statements;
use super::turns::{Turn, Turns};
use crate::consumer::Backoff;
use crate::domain::config::{Config, DatabaseKind, RelayConfig};
use crate::ingest::envelopes::{EnvelopeWriter, ValidEnvelopes};
use crate::log::inspect::uncounted;
use crate::log::kafka::Topic;
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use crate::storage::hot::HotTracker;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

/// The delay before the uncounted entries are counted again.
const LAG_DELAY: Duration = Duration::from_millis(200);

/// A relay, shared by its connections.
struct Relay {
    config: Arc<Config>,
    kind: DatabaseKind,
    statements: Arc<Statements>,
    store: Store,
    writer: EnvelopeWriter,
    /// One connection reads at a time, so rows are read in their order.
    reading: Mutex<Reading>,
}

/// The state of reading the table.
struct Reading {
    turns: Turns,
    /// Whether the last read found a full batch, so that there are probably more rows.
    has_more: bool,
    /// The number of rows read since the uncounted entries of the log were counted.
    since_lag_check: u64,
}

/// The rows of a transaction, divided by what happens to them.
#[derive(Default)]
struct Batch {
    valid: ValidEnvelopes,
    sent: Vec<i64>,
    /// The keys of rows that cannot be counted, with the reasons.
    dead: Vec<(i64, String)>,
    /// The first of them, for the log.
    first_dead: Option<String>,
}

/// Runs the relay until `stopping` turns true. Batches under way are finished.
///
/// # Errors
/// No database is configured, or its tables cannot be used. Other errors are retried.
pub async fn run(
    config: Arc<Config>,
    (store, topic): (Store, Option<Topic>),
    stopping: watch::Receiver<bool>,
) -> Result<(), RelayError> {
    let kind = config.relay.url.kind().ok_or(RelayError::NoDatabase)?;
    let catalog = Catalog::new(Arc::clone(&config), store.clone());
    let hot = HotTracker::disabled(config.hot);
    let relay = Arc::new(Relay {
        kind,
        statements: Arc::new(Statements::new(kind, &config.relay)),
        writer: EnvelopeWriter::new(catalog, store.clone(), hot).with_topic(topic),
        store,
        reading: Mutex::new(Reading {
            turns: Turns::default(),
            has_more: true,
            // The first read finds what another process has left in the log.
            since_lag_check: u64::MAX,
        }),
        config,
    });
    let mut until_stopped = stopping.clone();
    tokio::select! {
        checked = relay.wait_for_tables() => checked?,
        _ = until_stopped.wait_for(|stop| *stop) => return Ok(()),
    }
    let mut connections = JoinSet::new();
    for _ in 0..relay.config.relay.connections {
        connections.spawn(Arc::clone(&relay).work(stopping.clone()));
    }
    while let Some(ended) = connections.join_next().await {
        // The process ends rather than relay with fewer connections.
        if let Err(error) = ended
            && let Ok(panic) = error.try_into_panic()
        {
            std::panic::resume_unwind(panic);
        }
    }
    Ok(())
}

/// Checks that the tables can be used, also that rows can be deleted or marked and set aside.
///
/// # Errors
/// No database is configured, it is unavailable, or its tables cannot be used.
pub async fn check(config: &RelayConfig) -> Result<(), RelayError> {
    let kind = config.url.kind().ok_or(RelayError::NoDatabase)?;
    let statements = Arc::new(Statements::new(kind, config));
    let mut connection = Connection::open(kind, config, &statements).await?;
    connection.check(true).await
}

impl Relay {
    async fn connect(&self) -> Result<Connection, RelayError> {
        Connection::open(self.kind, &self.config.relay, &self.statements).await
    }

    /// Waits for the database, and checks its tables.
    async fn wait_for_tables(&self) -> Result<(), RelayError> {
        let mut backoff = Backoff::new();
        let table = &self.config.relay.table;
        loop {
            let checked = async { self.connect().await?.check(false).await };
            match checked.await {
                Ok(()) => {
                    tracing::info!(database = ?self.kind, table, "relaying");
                    return Ok(());
                }
                Err(error @ RelayError::Table { .. }) => return Err(error),
                Err(RelayError::Database(error)) if error.is_configuration() => {
                    return Err(error.into());
                }
                Err(error) => report(&error),
            }
            tokio::time::sleep(backoff.next_delay()).await;
        }
    }

    /// Relays batches over one connection at a time.
    async fn work(self: Arc<Self>, mut stopping: watch::Receiver<bool>) {
        let mut backoff = Backoff::new();
        let mut connection = None;
        loop {
            let relayed = tokio::select! {
                biased;
                _ = stopping.wait_for(|stop| *stop) => return,
                read = self.read(&mut connection) => read,
            };
            // A batch that has been read is finished before the process stops.
            let relayed = match (relayed, &mut connection) {
                (Ok(Some((rows, turn))), Some(connection)) => {
                    self.relay(connection, &rows, turn).await
                }
                (read, _) => read.map(drop),
            };
            match relayed {
                Ok(()) => {
                    backoff.reset();
                    metrics::gauge!("countd_relay_failed").set(0.0);
                }
                // It has been rolled back, and is read again after the one before.
                Err(RelayError::Before) => {}
                Err(error) => {
                    connection = None;
                    report(&error);
                    tokio::select! {
                        () = tokio::time::sleep(backoff.next_delay()) => {}
                        _ = stopping.wait_for(|stop| *stop) => return,
                    }
                }
            }
        }
    }

    /// Reads the next rows, in a transaction that stays open, and takes their turn. `None` if there are none.
    async fn read(
        &self,
        connection: &mut Option<Connection>,
    ) -> Result<Option<(Vec<OutboxRow>, Turn)>, RelayError> {
        let connection = match connection {
            Some(connection) => connection,
            None => connection.insert(self.connect().await?),
        };
        let mut reading = self.reading.lock().await;
        if !reading.has_more {
            tokio::time::sleep(self.config.relay.poll()).await;
        }
        self.wait_for_consumers(&mut reading).await?;
        let rows = connection.begin().await?;
        reading.has_more = rows.len() >= self.config.relay.batch;
        reading.since_lag_check = reading.since_lag_check.saturating_add(rows.len() as u64);
        if rows.is_empty() {
            connection.roll_back().await?;
            return Ok(None);
        }
        Ok(Some((rows, reading.turns.next_turn())))
    }

    /// Waits while too many events are uncounted. They need memory until they are counted.
    async fn wait_for_consumers(&self, reading: &mut Reading) -> Result<(), RelayError> {
        let max = self.config.relay.max_lag;
        if max == 0 || reading.since_lag_check < max.div_ceil(4) {
            return Ok(());
        }
        let mut is_waiting = false;
        loop {
            let lag = uncounted(&self.store).await;
            let lag = lag.map_err(|error| RelayError::Log(error.into()))?;
            if lag <= max {
                reading.since_lag_check = 0;
                return Ok(());
            }
            if !is_waiting {
                tracing::info!(lag, "waiting for the consumers");
            }
            is_waiting = true;
            tokio::time::sleep(LAG_DELAY).await;
        }
    }

    /// Sends the rows that have been read, and commits what happened to them. If they cannot be sent, they are released.
    async fn relay(
        &self,
        connection: &mut Connection,
        rows: &[OutboxRow],
        mut turn: Turn,
    ) -> Result<(), RelayError> {
        let batch = match self.send(rows, &mut turn).await {
            Ok(batch) => batch,
            Err(error) => {
                // The rows are released before the next batches are: otherwise later rows could be sent before them.
                connection.roll_back().await?;
                drop(turn);
                return Err(error);
            }
        };
        turn.finish();
        connection.set_aside(&batch.dead).await?;
        connection.settle(&batch.sent).await?;
        connection.commit().await?;
        metrics::counter!("countd_relay_sent_total").increment(batch.sent.len() as u64);
        metrics::counter!("countd_relay_dead_total").increment(batch.dead.len() as u64);
        if let (Some(event_id), Some((_, reason))) = (&batch.first_dead, batch.dead.first()) {
            let rows = batch.dead.len();
            tracing::warn!(rows, event_id, reason, "rows cannot be counted; the first:");
        }
        Ok(())
    }

    /// Appends the events of the rows to the log, after those of the batches before.
    async fn send(&self, rows: &[OutboxRow], turn: &mut Turn) -> Result<Batch, RelayError> {
        let mut batch = Batch::default();
        for row in rows {
            let added = match row.envelope() {
                Ok(envelope) => {
                    let added = self.writer.add(&envelope, &mut batch.valid).await?;
                    added.map_err(|problem| problem.to_string())
                }
                Err(reason) => Err(reason),
            };
            match added {
                Ok(()) => batch.sent.push(row.key),
                Err(reason) => {
                    batch.first_dead.get_or_insert_with(|| row.name());
                    batch.dead.push((row.key, reason));
                }
            }
        }
        turn.wait().await?;
        self.writer.append(&batch.valid).await?;
        Ok(batch)
    }
}

/// Reports an error after which the relay retries.
fn report(error: &RelayError) {
    tracing::warn!(%error, "the relay failed and will retry");
    metrics::counter!("countd_relay_retries_total").increment(1);
    metrics::gauge!("countd_relay_failed").set(1.0);
}
