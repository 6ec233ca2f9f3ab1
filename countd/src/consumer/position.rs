//! How far a partition has been counted. It lies beside the counters, in one hash, and changes with them.

use crate::domain::error::StoreError;
use crate::domain::keys::{Keys, Partition};
use crate::log::inspect::{invalid_offset, key_error, parse_offset};
use crate::redis::store::Store;
use redis::{FromRedisValue, RedisError, Value};
use std::collections::HashMap;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["HGETALL {position}", "HMGET {position} 0"];

/// Where the counting of a partition is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The offset of the first entry that has not been counted.
    pub next: u64,
    /// For each partition that hands derived events over, the first of them that has not been counted.
    pub fences: HashMap<Partition, u64>,
}

impl Position {
    /// The start of a log.
    pub fn start() -> Position {
        Position {
            next: 1,
            fences: HashMap::new(),
        }
    }

    /// Of a partition, in the fields of the hash that has it, maybe beside others; or what is wrong with them.
    fn find(keys: Keys, partition: Partition, fields: &Fields) -> Result<Position, String> {
        let mut position = Position::start();
        let offset = |field: &str, stored: &Vec<u8>| {
            parse_offset(stored).ok_or_else(|| invalid_offset(keys, partition, field, stored))
        };
        let field = next_field(partition);
        if let Some(stored) = fields.get(field.as_bytes()) {
            position.next = offset(&field, stored)?;
        }
        let prefix = format!("{partition}:");
        for (name, stored) in fields {
            let source = std::str::from_utf8(name)
                .ok()
                .and_then(|name| name.strip_prefix(&prefix));
            if let Some(source) = source.and_then(|source| source.parse().ok()) {
                let fence = offset(&fence_field(partition, source), stored)?;
                position.fences.insert(source, fence);
            }
        }
        Ok(position)
    }
}

/// Fields of a hash of positions, as they are stored.
type Fields = HashMap<Vec<u8>, Vec<u8>>;

fn next_field(partition: Partition) -> String {
    partition.to_string()
}

/// The field of a fence in the hash of positions.
pub fn fence_field(partition: Partition, source: Partition) -> String {
    format!("{partition}:{source}")
}

/// The positions of some partitions, or what is wrong with each.
///
/// # Errors
/// The store cannot be asked.
pub async fn load(
    store: &Store,
    partitions: &[Partition],
) -> Result<Vec<Result<Position, String>>, StoreError> {
    let keys = store.keys();
    let mut positions = Vec::with_capacity(partitions.len());
    // Without hash tags one hash has them all.
    let at_once = if keys.tagged() { 1 } else { usize::MAX };
    let mut pipe = redis::pipe();
    for some in partitions.chunks(at_once) {
        pipe.cmd("HGETALL").arg(keys.position(some[0]));
    }
    pipe.ignore_errors();
    let replies: Vec<Result<Value, RedisError>> = match partitions.is_empty() {
        true => Vec::new(),
        false => pipe.query_async(&mut store.commands()).await?,
    };
    for (some, reply) in partitions.chunks(at_once).zip(replies) {
        let fields = match reply.map_err(StoreError::from) {
            Ok(fields) => Fields::from_redis_value(fields)
                .map_err(|why| StoreError::Unexpected(why.to_string()))?,
            Err(StoreError::WrongType(why)) => {
                let why = key_error(&keys.position(some[0]), &why.to_string(), "hash");
                positions.extend(some.iter().map(|_| Err(why.clone())));
                continue;
            }
            Err(why) => return Err(why),
        };
        positions.extend(
            some.iter()
                .map(|partition| Position::find(keys, *partition, &fields)),
        );
    }
    Ok(positions)
}

/// Where the counting of some partitions is, without their fences; `None` where that is damaged.
///
/// # Errors
/// The store cannot be asked.
pub async fn next_offsets(
    store: &Store,
    partitions: &[Partition],
) -> Result<Vec<Option<u64>>, StoreError> {
    if partitions.is_empty() {
        return Ok(Vec::new());
    }
    let at_once = if store.keys().tagged() {
        1
    } else {
        partitions.len()
    };
    let mut pipe = redis::pipe();
    for some in partitions.chunks(at_once) {
        let fields: Vec<String> = some.iter().map(|p| next_field(*p)).collect();
        pipe.cmd("HMGET")
            .arg(store.keys().position(some[0]))
            .arg(fields);
    }
    let found: Vec<Vec<Option<Vec<u8>>>> = pipe.query_async(&mut store.commands()).await?;
    let next = |stored: Option<Vec<u8>>| stored.map_or(Some(1), |stored| parse_offset(&stored));
    Ok(found.into_iter().flatten().map(next).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(pairs: &[(&str, &str)]) -> Result<Position, String> {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        Position::find(Keys::new(1024, true), 7, &pairs.collect())
    }

    #[test]
    fn a_partition_without_a_position_is_at_its_start() {
        assert_eq!(find(&[]), Ok(Position::start()));
        assert_eq!(find(&[("77", "3")]), Ok(Position::start()));
    }

    #[test]
    fn fences_are_kept_by_source() {
        let fence = fence_field(7, 1023);
        let fields = [
            ("7", "7"),
            ("7:3", "12"),
            (&fence, "2"),
            ("77:4", "9"),
            ("8", "1"),
        ];
        let position = find(&fields).expect("a position");
        assert_eq!(position.next, 7);
        assert_eq!(position.fences, HashMap::from([(3, 12), (1023, 2)]));
    }

    #[test]
    fn a_damaged_field_is_named_and_those_of_other_partitions_do_not_matter() {
        let why = find(&[("7", "x"), ("8", "1")]).expect_err("no number");
        assert_eq!(
            why,
            "field 7 of x:cnt-update:{7}:pos is no offset but \"x\""
        );
        assert!(find(&[("7", "1"), ("7:3", "-1")]).is_err());
        assert!(find(&[("7", "1"), ("8", "x"), ("8:7", "x")]).is_ok());
    }
}
