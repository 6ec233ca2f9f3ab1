//! How far the streams were copied to the topic: a field of each partition beside its position. Another field has the histories of the
//! servers from which they were copied, each with its first offset: copies of a lost history are not those of entries of this data.

use super::inspect::parse_offset;
use crate::domain::config::Ack;
use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use redis::FromRedisValue;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Commands that this file sends.
pub const PERMISSIONS: &[&str] = &["HMGET {position} 0"];

/// Advances published offsets.
static ADVANCE: LazyLock<LoadedScript> = LazyLock::new(|| {
    let files = [
        include_str!("../lua/server_history.lua"),
        include_str!("../lua/published_advance.lua"),
    ];
    LoadedScript::writing(&files.join("\n"))
});

/// The permission that [`confirm`] requires.
pub fn confirm_permissions() -> Permissions {
    Permissions::of_commands(PERMISSIONS)
}

/// The permissions that [`advance`] requires.
pub fn advance_permissions() -> Permissions {
    ADVANCE.required_permissions()
}

fn field(partition: Partition) -> String {
    format!("published:{partition}")
}

fn histories_field(partition: Partition) -> String {
    format!("copies:{partition}")
}

/// The histories from which a partition was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histories(Vec<(u64, String)>);

impl Histories {
    /// The histories in a stored field. `None` if it is damaged.
    pub fn parse(field: &str) -> Option<Histories> {
        let parts = field.split(',').filter(|part| !part.is_empty());
        let parts = parts.map(|part| {
            let (first, history) = part.split_once(':')?;
            Some((first.parse().ok()?, history.to_owned()))
        });
        parts.collect::<Option<_>>().map(Histories)
    }

    /// The history from which the entry with this offset was copied.
    pub fn of(&self, offset: u64) -> Option<&str> {
        let before = self.0.partition_point(|(first, _)| *first <= offset);
        let (_, history) = self.0.get(before.checked_sub(1)?)?;
        Some(history)
    }

    /// The first offset from which on all copies are known, and none was left out.
    pub fn complete_from(&self) -> u64 {
        let first = self.0.first().map_or(1, |(first, _)| *first);
        self.after_gap().unwrap_or(first)
    }

    /// The first offset after the last counted entry that was left out, if any was.
    pub fn after_gap(&self) -> Option<u64> {
        let mut gaps = self.0.iter().rev().filter(|(_, history)| history == GAP);
        gaps.next().map(|(first, _)| *first)
    }
}

/// Stands for entries that were left out: by a reset of the log, or because their copies are too large for the topic.
const GAP: &str = "gap";

/// Waits until everything that the servers of partitions have executed is as safe as `redis.ack` requires. An entry that its own server could
/// still lose must not be copied: another one would get its offset.
///
/// # Errors
/// The store is unavailable, or it is not safe in time.
pub async fn confirm(store: &Store, partitions: &[Partition]) -> Result<(), StoreError> {
    if store.ack() == Ack::Memory {
        return Ok(());
    }
    let (nodes, keys) = (store.node_map(), store.keys());
    let mut confirmed = BTreeSet::new();
    for partition in partitions {
        if confirmed.insert(nodes.node_of(*partition)) {
            let mut cmd = redis::cmd("HMGET");
            cmd.arg(keys.position(*partition)).arg(*partition);
            cmd.exec_async(&mut store.writes()).await?;
        }
    }
    Ok(())
}

/// [`confirm`] for all partitions.
///
/// # Errors
/// The store is unavailable, or it is not safe in time.
pub async fn confirm_all(store: &Store) -> Result<(), StoreError> {
    let partitions: Vec<Partition> = (0..store.keys().partitions()).collect();
    confirm(store, &partitions).await
}

/// The offset of the first entry of each partition that was not copied.
///
/// # Errors
/// The store is unavailable, or a field is damaged.
pub async fn load(store: &Store, partitions: &[Partition]) -> Result<Vec<u64>, StoreError> {
    if partitions.is_empty() {
        return Ok(Vec::new());
    }
    let keys = store.keys();
    let mut pipe = redis::pipe();
    for chunk in partitions.chunks(keys.partitions_per_hash()) {
        let fields: Vec<String> = chunk.iter().map(|partition| field(*partition)).collect();
        pipe.cmd("HMGET").arg(keys.position(chunk[0])).arg(fields);
    }
    let stored: Vec<Vec<Option<Vec<u8>>>> = pipe.query_async(&mut store.commands()).await?;
    let stored = stored.into_iter().flatten().zip(partitions);
    stored
        .map(|(stored, partition)| match stored {
            None => Ok(1),
            Some(stored) => parse_offset(&stored).ok_or_else(|| {
                let (key, field) = (keys.position(*partition), field(*partition));
                StoreError::Unexpected(format!("field {field} of {key} is not an offset"))
            }),
        })
        .collect()
}

/// The histories from which these partitions were copied.
///
/// # Errors
/// The store is unavailable, or a field is damaged.
pub async fn histories(
    store: &Store,
    partitions: &[Partition],
) -> Result<Vec<Histories>, StoreError> {
    if partitions.is_empty() {
        return Ok(Vec::new());
    }
    let keys = store.keys();
    let mut pipe = redis::pipe();
    for chunk in partitions.chunks(keys.partitions_per_hash()) {
        let fields: Vec<String> = chunk.iter().copied().map(histories_field).collect();
        pipe.cmd("HMGET").arg(keys.position(chunk[0])).arg(fields);
    }
    let stored: Vec<Vec<Option<String>>> = pipe.query_async(&mut store.commands()).await?;
    let stored = stored.into_iter().flatten().zip(partitions);
    stored
        .map(|(stored, partition)| {
            Histories::parse(&stored.unwrap_or_default()).ok_or_else(|| {
                let (key, field) = (keys.position(*partition), histories_field(*partition));
                StoreError::Unexpected(format!("field {field} of {key} is damaged"))
            })
        })
        .collect()
}

/// Whether any entry of these partitions was counted.
///
/// # Errors
/// The store is unavailable.
pub async fn any_counted(store: &Store, partitions: &[Partition]) -> Result<bool, StoreError> {
    let keys = store.keys();
    let mut pipe = redis::pipe();
    for chunk in partitions.chunks(keys.partitions_per_hash()) {
        pipe.cmd("HMGET").arg(keys.position(chunk[0])).arg(chunk);
    }
    let stored: Vec<Vec<Option<Vec<u8>>>> = pipe.query_async(&mut store.commands()).await?;
    let mut positions = stored.iter().flatten().flatten();
    Ok(positions.any(|position| position != b"1"))
}

/// Records up to where a partition was copied, and the offset after the last counted entry that has no copy and will have none. Returns false
/// if the server has another history than `history`: the entries that were copied may not be in the stream any more.
///
/// # Errors
/// The store is unavailable.
pub async fn advance(
    store: &Store,
    partition: Partition,
    (next, gap): (u64, Option<u64>),
    (history, name): (&str, &str),
) -> Result<bool, StoreError> {
    let mut call = RedisCall::script(&ADVANCE, &[store.keys().position(partition)]);
    call.cmd.arg(history).arg(field(partition)).arg(next);
    call.cmd.arg(histories_field(partition));
    call.cmd.arg(name);
    let gap = gap.map(|gap| gap.to_string()).unwrap_or_default();
    call.cmd.arg(gap);
    let reply = call.send(store).await?;
    bool::from_redis_value(reply)
        .map_err(|error| StoreError::Unexpected(format!("published_advance: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_belongs_to_the_history_from_which_it_was_copied_last() {
        let histories = Histories::parse("1:aa,10:bb,15:cc").expect("valid");
        for (offset, history) in [(1, "aa"), (9, "aa"), (10, "bb"), (14, "bb"), (99, "cc")] {
            assert_eq!(histories.of(offset), Some(history), "{offset}");
        }
        assert_eq!(histories.complete_from(), 1);
        assert_eq!(Histories::parse("5:aa").expect("valid").of(4), None);
        assert_eq!(Histories::parse("5:aa").expect("valid").complete_from(), 5);
        let gap = Histories::parse("40:gap,50:aa").expect("valid");
        assert_eq!((gap.complete_from(), gap.after_gap()), (40, Some(40)));
        assert_eq!(histories.after_gap(), None);
        assert_eq!(Histories::parse(""), Some(Histories::default()));
        assert_eq!(Histories::parse("x:aa"), None);
    }
}
