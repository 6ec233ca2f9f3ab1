//! Limits the size of the streams of changes.

use super::batch::Batch;
use crate::domain::config::ChangesConfig;
use crate::domain::error::StoreError;
use crate::domain::keys::{Keys, Partition};
use crate::redis::store::Store;
use std::collections::BTreeMap;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &[
    "MEMORY USAGE {changes} SAMPLES 0",
    "XLEN {changes}",
    "XTRIM {changes} MAXLEN ~ 1",
];

/// A stream is measured after this part of its maximum size was added.
const PARTS: u64 = 8;
/// The size of an entry without its content, in bytes (estimated).
const ENTRY_BYTES: u64 = 64;

/// The streams of changes to which a worker appends.
pub(super) struct ChangeStreams {
    keys: Keys,
    max_bytes: u64,
    /// The bytes that were added to each stream since it was measured. A stream without an entry was never measured.
    added: BTreeMap<Partition, u64>,
}

/// The partition of the changes that a batch announced, and their size in bytes. `None` if there are none.
pub(super) fn announced_bytes(batch: &Batch, announced: bool) -> Option<(Partition, u64)> {
    if !announced {
        metrics::counter!("countd_changes_rejected_total").increment(1);
        tracing::warn!("changes cannot be announced: their stream is damaged");
    }
    let partition = batch.positions.keys().next()?;
    let content: usize = batch
        .changes
        .types()
        .flat_map(|(_, ids)| ids)
        .map(|id| id.as_str().len() + 1)
        .sum();
    (!batch.changes.is_empty()).then_some((*partition, content as u64 + ENTRY_BYTES))
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

    /// Records what was added to streams, and removes the oldest entries of those that are too large. After an error they are trimmed later.
    pub(super) async fn bound(&mut self, store: &Store, added: Vec<(Partition, u64)>) {
        for (partition, bytes) in added {
            // Without hash tags all partitions share one stream.
            let stream = if self.keys.tagged() { partition } else { 0 };
            let added = self.added.entry(stream).or_insert(self.max_bytes);
            *added += bytes;
            if *added <= self.max_bytes / PARTS {
                continue;
            }
            *added = 0;
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
        let mut trim = redis::cmd("XTRIM");
        // An approximate limit removes whole nodes, at most 100 of them.
        trim.arg(key).arg("MAXLEN").arg("~").arg(retained as u64);
        if trim.query_async::<u64>(&mut store.commands()).await? == 0 {
            return Ok(());
        }
    }
}
