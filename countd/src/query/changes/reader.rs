//! Reads the streams of changes for all clients of the process.

use super::cursor::{Cursor, EntryId};
use super::event::ChangeEvent;
use super::streams::{ChangeEntry, PAGE, begin, groups, read, read_ends};
use crate::domain::changes::ChangedEntities;
use crate::domain::error::StoreError;
use crate::redis::store::Store;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{broadcast, watch};

/// The maximum number of changes in an event. An event may exceed it by the changes of one entry.
pub(super) const MAX_CHANGES: usize = 1_000;
/// The maximum number of pages that are read of a stream in a round, so that one stream does not delay the others.
const MAX_PAGES: usize = 64;

/// What is known of a stream.
struct StreamState {
    cursor: Cursor,
    /// Every change up to this time was read, in milliseconds by the clock of the stream's node.
    covered_ms: u64,
    /// Whether the stream could not be read because it is damaged.
    is_damaged: bool,
}

/// Reads the streams of changes.
pub(super) struct Reader {
    store: Store,
    streams: BTreeMap<u16, StreamState>,
    events: broadcast::Sender<ChangeEvent>,
    /// Every change up to this time was broadcast, in milliseconds. `None` before the first read.
    position: Arc<watch::Sender<Option<u64>>>,
    changed: ChangedEntities,
    is_reset: bool,
}

impl Reader {
    /// A reader that broadcasts the changes from now on.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn start(
        store: Store,
        events: broadcast::Sender<ChangeEvent>,
        position: Arc<watch::Sender<Option<u64>>>,
    ) -> Result<Reader, StoreError> {
        let mut streams = BTreeMap::new();
        for group in groups(&store) {
            let ends = read_ends(&store, &group).await?;
            for (partition, end) in group.into_iter().zip(ends.streams) {
                let is_damaged = end.is_err();
                let last = match end {
                    Ok(None) => created(&store, partition).await,
                    end => end.ok().flatten(),
                };
                let state = StreamState {
                    cursor: Cursor::after(last.unwrap_or_default()),
                    covered_ms: ends.now_ms,
                    is_damaged,
                };
                streams.insert(partition, state);
            }
        }
        let mut reader = Reader {
            store,
            streams,
            events,
            position,
            changed: ChangedEntities::default(),
            is_reset: false,
        };
        reader.publish();
        Ok(reader)
    }

    /// Reads all streams once, and broadcasts their changes.
    pub async fn round(&mut self) {
        for group in groups(&self.store) {
            self.read_group(group).await;
        }
        self.publish();
    }

    async fn read_group(&mut self, mut group: Vec<u16>) {
        for _ in 0..MAX_PAGES {
            let start = |partition: &u16| {
                let state = self.streams.get(partition)?;
                Some((*partition, state.cursor.start()))
            };
            let from: Vec<(u16, String)> = group.iter().filter_map(start).collect();
            let read = match read(&self.store, &from).await {
                Ok(read) => read,
                Err(error) => {
                    tracing::warn!(%error, "changes cannot be read; will retry");
                    let failed = from.iter();
                    failed.for_each(|(partition, _)| self.rewind(*partition));
                    return;
                }
            };
            let mut full = Vec::new();
            for ((partition, _), page) in from.into_iter().zip(read.streams) {
                match page {
                    Ok(entries) => {
                        let is_full = entries.len() == PAGE;
                        self.add_page(partition, entries);
                        if is_full {
                            full.push(partition);
                        } else if let Some(state) = self.streams.get_mut(&partition) {
                            state.covered_ms = read.now_ms;
                        }
                    }
                    Err(error) => {
                        tracing::warn!(partition, %error, "the stream of changes cannot be read");
                        self.rewind(partition);
                        if let Some(state) = self.streams.get_mut(&partition) {
                            state.is_damaged = true;
                        }
                    }
                }
            }
            if full.is_empty() {
                return;
            }
            group = full;
        }
    }

    /// Goes back after an error, which may be a failover.
    fn rewind(&mut self, partition: u16) {
        if let Some(state) = self.streams.get_mut(&partition) {
            state.cursor.rewind();
        }
    }

    fn add_page(&mut self, partition: u16, entries: Vec<ChangeEntry>) {
        let Some(state) = self.streams.get_mut(&partition) else {
            return;
        };
        // Changes could not be appended to a damaged stream.
        self.is_reset |= std::mem::take(&mut state.is_damaged);
        for entry in entries {
            let is_complete = state.cursor.advance(entry.id, entry.previous);
            let is_valid = self.changed.add_content(&entry.content).is_ok();
            self.is_reset |= !(is_complete && is_valid);
            if self.changed.len() >= MAX_CHANGES {
                let position = self.position.borrow().unwrap_or_default();
                broadcast(
                    &self.events,
                    position,
                    &mut self.is_reset,
                    &mut self.changed,
                );
            }
        }
    }

    /// Broadcasts the remaining changes and publishes the position.
    fn publish(&mut self) {
        let covered = self.streams.values().map(|state| state.covered_ms);
        let position = covered.min().unwrap_or_default();
        broadcast(
            &self.events,
            position,
            &mut self.is_reset,
            &mut self.changed,
        );
        self.position.send_replace(Some(position));
    }
}

/// The last ID of a missing stream, which is created: otherwise a client that resumes could not know whether it has lost changes. `None` if
/// it exists meanwhile, or cannot be created.
async fn created(store: &Store, partition: u16) -> Option<EntryId> {
    let created = begin(store, partition).await;
    created.unwrap_or_else(|error| {
        tracing::warn!(partition, %error, "the stream of changes cannot be created");
        None
    })
}

/// Broadcasts a reset if there is one, and the changes.
fn broadcast(
    events: &broadcast::Sender<ChangeEvent>,
    position: u64,
    is_reset: &mut bool,
    changed: &mut ChangedEntities,
) {
    // Without clients a send fails. That is not an error.
    if std::mem::take(is_reset) {
        metrics::counter!("countd_change_resets_total").increment(1);
        let _ = events.send(ChangeEvent::Reset { position });
    }
    if !changed.is_empty() {
        let changed = std::mem::take(changed);
        let _ = events.send(ChangeEvent::changed(position, &changed));
    }
}
