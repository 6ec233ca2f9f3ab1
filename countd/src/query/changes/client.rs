//! Sends the changes to a client: first what it missed, then the events of the reader.

use super::cursor::{Cursor, EntryId, SKEW_MS};
use super::event::ChangeEvent;
use super::reader::MAX_CHANGES;
use super::streams::{PAGE, groups, read, read_ends};
use crate::domain::changes::ChangedEntities;
use crate::domain::error::StoreError;
use crate::redis::store::Store;
use metrics::Gauge;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, mpsc, watch};
use tokio::time::MissedTickBehavior;

/// The interval at which a client without changes gets its position.
pub const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// A stream that is read for a client: its partition, the place, and the last ID of the stream when the client came.
type Replay = (u16, Cursor, Option<EntryId>);

/// The client is gone.
struct Gone;

/// Sends the events of a client until it is gone or the process stops.
pub(super) struct Client {
    pub store: Store,
    /// Turns true when the process stops.
    pub stopping: watch::Receiver<bool>,
    /// Limits the clients that read missed changes at once.
    pub replays: Arc<Semaphore>,
    /// The time up to which the reader has broadcast every change.
    pub position: watch::Receiver<Option<u64>>,
    /// The events of the reader.
    pub live: broadcast::Receiver<ChangeEvent>,
    /// The events for the client.
    pub to: mpsc::Sender<ChangeEvent>,
    /// Counts against `changes.max_streams`.
    pub slot: OwnedSemaphorePermit,
}

/// Counts a client while it exists.
struct Counted(Gauge);

impl Counted {
    fn new() -> Counted {
        let gauge = metrics::gauge!("countd_change_streams");
        gauge.increment(1);
        Counted(gauge)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.decrement(1);
    }
}

impl Client {
    /// Sends what the client missed since `from`, and then the events of the reader.
    pub async fn run(mut self, from: Option<u64>) {
        let _counted = Counted::new();
        let mut stopping = self.stopping.clone();
        tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => {}
            result = self.send_all(from) => {
                if let Ok(Err(error)) = result {
                    tracing::warn!(%error, "missed changes cannot be read");
                }
            }
        }
        drop(self.slot);
    }

    async fn send_all(&mut self, from: Option<u64>) -> Result<Result<(), StoreError>, Gone> {
        // The client can resume before it gets the first change.
        let position = from.unwrap_or_else(|| self.position());
        self.send(ChangeEvent::KeepAlive { position }).await?;
        if let Some(from) = from {
            match self.replay(from).await? {
                Ok(true) => {}
                Ok(false) => self.send_reset().await?,
                // The client resumes from the same position.
                Err(error) => return Ok(Err(error)),
            }
        }
        self.send_live().await.map(Ok)
    }

    fn position(&self) -> u64 {
        self.position.borrow().unwrap_or_default()
    }

    async fn send(&self, event: ChangeEvent) -> Result<(), Gone> {
        self.to.send(event).await.map_err(|_| Gone)
    }

    async fn send_reset(&self) -> Result<(), Gone> {
        metrics::counter!("countd_change_resets_total").increment(1);
        let position = self.position();
        self.send(ChangeEvent::Reset { position }).await
    }

    /// The streams, each with its end before its entries are read: the reader broadcasts later ones.
    async fn replays_of(&self, group: Vec<u16>, from: u64) -> Result<Vec<Replay>, StoreError> {
        let ends = read_ends(&self.store, &group).await?;
        let streams = group.into_iter().zip(ends.streams);
        let replay = |(partition, end): (u16, Result<_, _>)| {
            end.map(|end| (partition, Cursor::at_time(from), end))
        };
        streams.map(replay).collect()
    }

    /// Sends the changes since a time. They end after the first event of the reader that the client gets. Returns false if some of them
    /// are not retained.
    async fn replay(&self, from: u64) -> Result<Result<bool, StoreError>, Gone> {
        // Reading many streams for many clients at once would delay everything else.
        let _permit = self.replays.acquire().await;
        // A time that has not come is not that of an event.
        if from > self.position().saturating_add(SKEW_MS) {
            return Ok(Ok(false));
        }
        let store = &self.store;
        let mut changed = ChangedEntities::default();
        for group in groups(store) {
            let mut pending = match self.replays_of(group, from).await {
                Ok(pending) => pending,
                Err(error) => return Ok(Err(error)),
            };
            while !pending.is_empty() {
                let starts = pending.iter();
                let starts: Vec<(u16, String)> = starts
                    .map(|(partition, cursor, _)| (*partition, cursor.start()))
                    .collect();
                let pages = match read(store, &starts).await {
                    Ok(read) => read.streams,
                    Err(error) => return Ok(Err(error)),
                };
                let mut full = Vec::new();
                for ((partition, mut cursor, end), page) in pending.into_iter().zip(pages) {
                    let entries = match page {
                        Ok(entries) => entries,
                        Err(error) => return Ok(Err(error)),
                    };
                    let is_full = entries.len() == PAGE;
                    for entry in entries {
                        let is_complete = cursor.advance(entry.id, entry.previous);
                        if !is_complete || changed.add_content(&entry.content).is_err() {
                            return Ok(Ok(false));
                        }
                        if changed.len() >= MAX_CHANGES {
                            let part = std::mem::take(&mut changed);
                            self.send(ChangeEvent::changed(from, &part)).await?;
                        }
                    }
                    if is_full {
                        full.push((partition, cursor, end));
                    } else if !cursor.has_reached(end) {
                        return Ok(Ok(false));
                    }
                }
                pending = full;
            }
        }
        if !changed.is_empty() {
            self.send(ChangeEvent::changed(from, &changed)).await?;
        }
        Ok(Ok(true))
    }

    /// Sends the events of the reader.
    async fn send_live(&mut self) -> Result<(), Gone> {
        let mut keep_alive = tokio::time::interval(KEEP_ALIVE);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        keep_alive.reset();
        loop {
            tokio::select! {
                event = self.live.recv() => match event {
                    Ok(event) => self.send(event).await?,
                    Err(RecvError::Lagged(_)) => self.send_reset().await?,
                    Err(RecvError::Closed) => return Ok(()),
                },
                _ = keep_alive.tick() => {
                    // The position covers the events that were broadcast before it was read: they come first.
                    let position = self.position();
                    match self.live.try_recv() {
                        Ok(event) => self.send(event).await?,
                        Err(TryRecvError::Empty) => {
                            self.send(ChangeEvent::KeepAlive { position }).await?;
                        }
                        Err(TryRecvError::Lagged(_)) => self.send_reset().await?,
                        Err(TryRecvError::Closed) => return Ok(()),
                    }
                }
                () = self.to.closed() => return Err(Gone),
            }
        }
    }
}
