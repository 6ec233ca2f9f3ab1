//! Limits the size of the streams of changes.

use super::assignment::AssignedPartitions;
use super::batch::Batch;
use crate::domain::config::{ChangesConfig, Config};
use crate::domain::error::StoreError;
use crate::domain::keys::{Keys, Partition};
use crate::redis::store::Store;
use redis::{Pipeline, RedisError};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &[
    "MEMORY USAGE {changes} SAMPLES 0",
    "XLEN {changes}",
    "XTRIM {changes} MAXLEN ~ 1",
];

/// A stream is measured after this part of its maximum size was added.
const PARTS: u64 = 8;
/// A stream to which commits append is measured again after this time: adjustments and resets announce changes, too.
const MEASURE_INTERVAL: Duration = Duration::from_secs(30);
/// The interval at which the owner of a partition measures its stream. Without commits, no worker measures it.
const OWNER_INTERVAL: Duration = Duration::from_secs(10);
/// The number of streams that are measured with one pipeline.
const STREAMS: usize = 128;
/// The size of an entry without its content, in bytes (estimated).
const ENTRY_BYTES: u64 = 64;

/// The streams of changes to which a worker appends.
pub(super) struct ChangeStreams {
    keys: Keys,
    max_bytes: u64,
    /// The bytes that were added to each stream since it was measured, and when that was. A stream without an entry was never measured.
    added: BTreeMap<Partition, (u64, Instant)>,
}

/// The partition of the changes that a batch announced, and their size in bytes. `None` if there are none.
pub(super) fn announced_bytes(batch: &Batch, announced: Option<u64>) -> Option<(Partition, u64)> {
    let Some(content) = announced else {
        metrics::counter!("countd_changes_rejected_total").increment(1);
        tracing::warn!("changes cannot be announced: their stream is damaged");
        return None;
    };
    let partition = batch.positions.keys().next()?;
    (content > 0).then_some((*partition, content + ENTRY_BYTES))
}

impl ChangeStreams {
    /// The streams with the sizes of these settings.
    pub(super) fn new(settings: &ChangesConfig, keys: Keys) -> ChangeStreams {
        ChangeStreams {
            max_bytes: settings.bytes_per_stream(keys),
            added: BTreeMap::new(),
            keys,
        }
    }

    /// Records what was added to a stream. Returns whether it has to be measured.
    fn must_measure(&mut self, stream: Partition, bytes: u64, now: Instant) -> bool {
        let (added, measured) = self.added.entry(stream).or_insert((self.max_bytes, now));
        *added += bytes;
        let is_recent = now.saturating_duration_since(*measured) < MEASURE_INTERVAL;
        if *added <= self.max_bytes / PARTS && is_recent {
            return false;
        }
        (*added, *measured) = (0, now);
        true
    }

    /// Adds to the sizes of streams, and trims the streams that exceed their maximum size. After an error, a later call trims them.
    pub(super) async fn bound(&mut self, store: &Store, added: Vec<(Partition, u64)>) {
        for (partition, bytes) in added {
            // Without hash tags all partitions share one stream.
            let stream = if self.keys.tagged() { partition } else { 0 };
            if !self.must_measure(stream, bytes, Instant::now()) {
                continue;
            }
            let key = self.keys.changes(stream);
            if let Err(error) = remove_oldest(store, &key, self.max_bytes).await {
                tracing::warn!(key, %error, "changes cannot be trimmed");
            }
        }
    }
}

/// Bounds the streams of the assigned partitions at an interval, until `stop` turns true. Adjustments and resets append to them without
/// commits.
pub(super) async fn bound_assigned(
    config: Arc<Config>,
    store: Store,
    assigned: AssignedPartitions,
    mut stop: watch::Receiver<bool>,
) {
    if !config.changes.enabled {
        return;
    }
    let bounding = async {
        loop {
            tokio::time::sleep(OWNER_INTERVAL).await;
            let keys = store.keys();
            let assigned = Arc::clone(&assigned.borrow());
            // Without hash tags, the owner of partition 0 measures the only stream.
            let streams = assigned
                .iter()
                .filter(|partition| **partition < keys.change_streams());
            let streams: Vec<String> = streams.map(|stream| keys.changes(*stream)).collect();
            let max_bytes = config.changes.bytes_per_stream(keys);
            for some in streams.chunks(STREAMS) {
                if let Err(error) = bound_larger(&store, some, max_bytes).await {
                    tracing::warn!(%error, "changes cannot be trimmed");
                }
            }
        }
    };
    tokio::select! {
        () = bounding => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

/// Trims the streams that exceed their maximum size. A stream that cannot be trimmed does not keep the others from it.
async fn bound_larger(store: &Store, streams: &[String], max_bytes: u64) -> Result<(), StoreError> {
    let mut pipe = redis::pipe();
    for key in streams {
        measure(&mut pipe, key);
    }
    // Streams on the other nodes are measured when a node is unavailable.
    pipe.ignore_errors();
    let sizes: Vec<Result<Option<u64>, RedisError>> =
        pipe.query_async(&mut store.commands()).await?;
    let mut result = Ok(());
    for (key, bytes) in streams.iter().zip(sizes) {
        if bytes.is_ok_and(|bytes| bytes > Some(max_bytes))
            && let Err(error) = remove_oldest(store, key, max_bytes).await
        {
            result = Err(error);
        }
    }
    result
}

/// Adds a command that measures a stream. SAMPLES 0 measures all its nodes: their sizes differ.
fn measure(pipe: &mut Pipeline, key: &str) {
    pipe.cmd("MEMORY")
        .arg("USAGE")
        .arg(key)
        .arg("SAMPLES")
        .arg(0);
}

/// Removes the oldest entries of a stream until it has at most `max_bytes`, or nothing more can be removed.
async fn remove_oldest(store: &Store, key: &str, max_bytes: u64) -> Result<(), StoreError> {
    loop {
        let mut pipe = redis::pipe();
        measure(&mut pipe, key);
        pipe.cmd("XLEN").arg(key);
        let (bytes, count): (Option<u64>, u64) = pipe.query_async(&mut store.commands()).await?;
        let bytes = bytes.unwrap_or(0);
        if bytes <= max_bytes {
            return Ok(());
        }
        let retained = u128::from(count) * u128::from(max_bytes) / u128::from(bytes);
        if !remove_nodes(store, key, retained as u64).await? {
            return Ok(());
        }
    }
}

/// Removes the oldest nodes of a stream, so that about `retained` entries stay. The sizes of entries differ: if the oldest node has more
/// entries than may be removed, fewer are retained. Returns whether something was removed.
async fn remove_nodes(store: &Store, key: &str, mut retained: u64) -> Result<bool, StoreError> {
    loop {
        let mut trim = redis::cmd("XTRIM");
        // An approximate limit removes whole nodes, at most 100 of them.
        trim.arg(key).arg("MAXLEN").arg("~").arg(retained);
        let removed: u64 = trim.query_async(&mut store.commands()).await?;
        if removed > 0 || retained <= 1 {
            return Ok(removed > 0);
        }
        retained -= (retained / 8).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::keys::PartitionHash;

    #[test]
    fn a_stream_is_measured_after_bytes_and_after_a_time() {
        let mut streams = ChangeStreams {
            keys: Keys::new(16, false, PartitionHash::Murmur2),
            max_bytes: 800,
            added: BTreeMap::new(),
        };
        let begin = Instant::now();
        assert!(streams.must_measure(0, 1, begin), "its size is not known");
        assert!(!streams.must_measure(0, 100, begin));
        assert!(streams.must_measure(0, 1, begin));
        let later = begin + MEASURE_INTERVAL;
        assert!(!streams.must_measure(0, 1, later - Duration::from_secs(1)));
        assert!(streams.must_measure(0, 1, later));
        assert!(!streams.must_measure(0, 1, later));
    }
}
