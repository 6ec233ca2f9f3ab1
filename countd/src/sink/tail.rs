//! Reads the counted entries of all logs, from the offsets of the sink on.

use super::changes::Changes;
use super::error::SinkError;
use super::tables::Tables;
use crate::consumer::load_next_offsets;
use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use crate::log::{LogEntry, Streams};
use crate::redis::store::Store;
use futures_util::{StreamExt, TryStreamExt, stream};
use std::collections::BTreeMap;

/// The maximum number of bytes of a read of a partition.
const MAX_BYTES: usize = 1 << 20;
/// The number of partitions that are read at once.
const READS: usize = 16;

/// The entries after some offsets.
#[derive(Default)]
pub struct Entries {
    /// What they name.
    pub changes: Changes,
    /// The new offsets of the partitions that were read.
    pub next: BTreeMap<Partition, u64>,
    /// The partitions with entries that are missing: their new offsets.
    pub lost: BTreeMap<Partition, u64>,
    /// The number of counted entries that are left, those that were read included.
    pub lag: u64,
}

/// What was read of a partition.
enum Read {
    /// The entries, and the offset after them.
    Entries(Vec<LogEntry>, u64),
    /// Entries are missing.
    Lost,
}

/// The positions of the consumers: the offsets of the first entries that are not counted. A damaged one is left out.
///
/// # Errors
/// Redis is unavailable.
pub async fn positions(store: &Store) -> Result<BTreeMap<Partition, u64>, StoreError> {
    let all: Vec<Partition> = (0..store.keys().partitions()).collect();
    let positions = load_next_offsets(store, &all).await?.into_iter();
    let positions = all.into_iter().zip(positions);
    Ok(positions
        .filter_map(|(partition, position)| Some((partition, position?)))
        .collect())
}

/// Reads up to about `limit` counted entries, from these offsets on. `first` is the partition that is read first.
///
/// # Errors
/// Redis is unavailable.
pub async fn read(
    log: &Streams,
    store: &Store,
    tables: &Tables,
    offsets: &BTreeMap<Partition, u64>,
    (first, limit): (Partition, usize),
) -> Result<Entries, SinkError> {
    let positions = positions(store).await?;
    let mut read = Entries::default();
    let (mut waiting, mut left) = (Vec::new(), limit as u64);
    // Each partition has its turn, also if there is more than can be read at once.
    let turns = offsets.range(first..).chain(offsets.range(..first));
    for (partition, offset) in turns {
        let Some(position) = positions.get(partition) else {
            continue;
        };
        if position < offset {
            read.lost.insert(*partition, *position);
            continue;
        }
        let count = position - offset;
        read.lag += count;
        if count > 0 && left > 0 {
            left = left.saturating_sub(count);
            waiting.push((*partition, *offset, *position));
        }
    }
    let reads = stream::iter(waiting).map(|(partition, from, position)| async move {
        let entries = read_partition(log, partition, (from, position), limit).await?;
        Ok::<_, StoreError>((partition, position, entries))
    });
    let reads: Vec<_> = reads.buffered(READS).try_collect().await?;
    for (partition, position, entries) in reads {
        match entries {
            Read::Lost => {
                read.lost.insert(partition, position);
            }
            Read::Entries(entries, next) => {
                let entries = entries.iter();
                entries.for_each(|entry| read.changes.add_entry(tables, entry));
                read.next.insert(partition, next);
            }
        }
    }
    Ok(read)
}

async fn read_partition(
    log: &Streams,
    partition: Partition,
    (from, position): (u64, u64),
    limit: usize,
) -> Result<Read, StoreError> {
    let limits = (limit, MAX_BYTES);
    let (mut entries, mut is_end) = log.read_counted(partition, from, limits).await?;
    if entries.is_empty() && !is_end {
        // The next entry is longer.
        let limits = (1, usize::MAX);
        (entries, is_end) = log.read_counted(partition, from, limits).await?;
    }
    entries.retain(|entry| entry.offset < position);
    Ok(match check(&entries, (from, position), is_end) {
        Some(next) => Read::Entries(entries, next),
        None => Read::Lost,
    })
}

/// The offset after entries that were read from `from` on. `None` if there are gaps: offsets have none, so entries were deleted. `is_end` says
/// that there are no others before `position`.
fn check(entries: &[LogEntry], (from, position): (u64, u64), is_end: bool) -> Option<u64> {
    let mut next = from;
    for entry in entries {
        if entry.offset != next {
            return None;
        }
        next += 1;
    }
    (next == position || next > from && !is_end).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::EntryKind;

    #[test]
    fn missing_entries_are_noticed() {
        let check = |offsets: &[u64], is_end: bool| {
            let entries = offsets.iter().map(|offset| LogEntry {
                offset: *offset,
                kind: EntryKind::Event,
                payload: Vec::new(),
                size: 0,
                is_whole: true,
            });
            super::check(&entries.collect::<Vec<_>>(), (5, 8), is_end)
        };
        assert_eq!(check(&[5, 6, 7], true), Some(8));
        assert_eq!(check(&[5, 6], false), Some(7), "the others follow");
        assert_eq!(check(&[5, 6], true), None, "the last is missing");
        assert_eq!(check(&[6, 7], true), None, "trimmed");
        assert_eq!(check(&[5, 7], true), None, "erased");
        assert_eq!(check(&[], true), None);
    }
}
