//! Limits the size of the streams of changes.

use super::batch::Batch;
use crate::domain::config::ChangesConfig;
use crate::domain::error::StoreError;
use crate::domain::keys::{Keys, Partition};
use crate::redis::store::Store;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

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

/// Removes the oldest entries of a stream until it has at most `max_bytes`, or nothing more can be removed.
async fn remove_oldest(store: &Store, key: &str, max_bytes: u64) -> Result<(), StoreError> {
    loop {
        let mut pipe = redis::pipe();
        // SAMPLES 0 measures all nodes of the stream: their sizes differ.
        pipe.cmd("MEMORY")
            .arg("USAGE")
            .arg(key)
            .arg("SAMPLES")
            .arg(0);
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
