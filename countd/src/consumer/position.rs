//! The position of a partition: the offset up to which it is committed. It is stored in a Hash beside the counters and advanced by
//! the commit that changes them.

use crate::domain::error::StoreError;
use crate::domain::keys::{Keys, Partition};
use crate::log::inspect::{invalid_offset, key_error, parse_offset};
use crate::redis::store::Store;
use redis::{FromRedisValue, RedisError, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["HGETALL {position}", "HMGET {position} 0"];

/// How far a partition is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The offset of the first entry that is not committed.
    pub next: u64,
    /// The offset of the first record of its partition of the topic that is not committed. Records begin at 0.
    pub topic: u64,
    /// By source partition, the sequence number of the first derived event that is not committed.
    pub fences: HashMap<Partition, u64>,
    /// The history of the server of which entries are read and committed. `None` if entries come from elsewhere.
    pub history: Option<Arc<str>>,
}

impl Position {
    /// The position of a partition without committed entries.
    pub fn start() -> Position {
        Position {
            next: 1,
            topic: 0,
            fences: HashMap::new(),
            history: None,
        }
    }

    /// Decodes the position of a partition from the fields of the hash, which may hold other partitions as well.
    ///
    /// # Errors
    /// Names the damaged field.
    fn decode(keys: Keys, partition: Partition, fields: &Fields) -> Result<Position, String> {
        let mut position = Position::start();
        let parse_offset = |field: &str, stored: &Vec<u8>| {
            parse_offset(stored).ok_or_else(|| invalid_offset(keys, partition, field, stored))
        };
        let field = next_field(partition);
        if let Some(stored) = fields.get(field.as_bytes()) {
            position.next = parse_offset(&field, stored)?;
        }
        let field = topic_field(partition);
        if let Some(stored) = fields.get(field.as_bytes()) {
            position.topic = parse_offset(&field, stored)?;
        }
        let prefix = format!("{partition}:");
        for (name, stored) in fields {
            let source = std::str::from_utf8(name)
                .ok()
                .and_then(|name| name.strip_prefix(&prefix));
            if let Some(source) = source.and_then(|source| source.parse().ok()) {
                let fence = parse_offset(&fence_field(partition, source), stored)?;
                position.fences.insert(source, fence);
            }
        }
        Ok(position)
    }
}

/// The fields of a hash of positions.
type Fields = HashMap<Vec<u8>, Vec<u8>>;

fn next_field(partition: Partition) -> String {
    partition.to_string()
}

/// The field with the position of a partition in the topic.
pub fn topic_field(partition: Partition) -> String {
    format!("topic:{partition}")
}

/// The field of a fence in the hash of positions.
pub fn fence_field(partition: Partition, source: Partition) -> String {
    format!("{partition}:{source}")
}

/// Loads the positions of partitions, without the histories of their servers. The inner error names the damaged key or field.
///
/// # Errors
/// The store is unavailable.
pub async fn load(
    store: &Store,
    partitions: &[Partition],
) -> Result<Vec<Result<Position, String>>, StoreError> {
    let keys = store.keys();
    let mut positions = Vec::with_capacity(partitions.len());
    let per_hash = keys.partitions_per_hash();
    let mut pipe = redis::pipe();
    for chunk in partitions.chunks(per_hash) {
        pipe.cmd("HGETALL").arg(keys.position(chunk[0]));
    }
    pipe.ignore_errors();
    let replies: Vec<Result<Value, RedisError>> = match partitions.is_empty() {
        true => Vec::new(),
        false => pipe.query_async(&mut store.commands()).await?,
    };
    for (chunk, reply) in partitions.chunks(per_hash).zip(replies) {
        let fields = match reply.map_err(StoreError::from) {
            Ok(fields) => Fields::from_redis_value(fields)
                .map_err(|error| StoreError::Unexpected(error.to_string()))?,
            Err(StoreError::WrongType(error)) => {
                let reason = key_error(&keys.position(chunk[0]), &error.to_string(), "hash");
                positions.extend(chunk.iter().map(|_| Err(reason.clone())));
                continue;
            }
            Err(error) => return Err(error),
        };
        let decoded = chunk
            .iter()
            .map(|partition| Position::decode(keys, *partition, &fields));
        positions.extend(decoded);
    }
    Ok(positions)
}

/// Loads the next offsets of partitions, without their fences; `None` where the field is damaged.
///
/// # Errors
/// The store is unavailable.
pub async fn load_next_offsets(
    store: &Store,
    partitions: &[Partition],
) -> Result<Vec<Option<u64>>, StoreError> {
    load_fields(store, partitions, next_field, 1).await
}

/// Loads the positions of partitions in the topic; `None` where the field is damaged.
///
/// # Errors
/// The store is unavailable.
pub async fn load_topic_offsets(
    store: &Store,
    partitions: &[Partition],
) -> Result<Vec<Option<u64>>, StoreError> {
    load_fields(store, partitions, topic_field, 0).await
}

/// Loads a field of each partition, which is `first` if it does not exist.
async fn load_fields(
    store: &Store,
    partitions: &[Partition],
    field: impl Fn(Partition) -> String,
    first: u64,
) -> Result<Vec<Option<u64>>, StoreError> {
    if partitions.is_empty() {
        return Ok(Vec::new());
    }
    let keys = store.keys();
    let mut pipe = redis::pipe();
    for chunk in partitions.chunks(keys.partitions_per_hash()) {
        let fields: Vec<String> = chunk.iter().map(|p| field(*p)).collect();
        pipe.cmd("HMGET").arg(keys.position(chunk[0])).arg(fields);
    }
    let stored: Vec<Vec<Option<Vec<u8>>>> = pipe.query_async(&mut store.commands()).await?;
    let offset =
        |stored: Option<Vec<u8>>| stored.map_or(Some(first), |stored| parse_offset(&stored));
    Ok(stored.into_iter().flatten().map(offset).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::keys::PartitionHash;

    fn decode(pairs: &[(&str, &str)]) -> Result<Position, String> {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        Position::decode(
            Keys::new(1024, true, PartitionHash::Murmur2),
            7,
            &pairs.collect(),
        )
    }

    #[test]
    fn a_partition_without_a_stored_position_is_at_the_start() {
        assert_eq!(decode(&[]), Ok(Position::start()));
        assert_eq!(decode(&[("77", "3")]), Ok(Position::start()));
    }

    #[test]
    fn fences_are_decoded_by_source() {
        let fence = fence_field(7, 1023);
        let fields = [
            ("7", "7"),
            ("topic:7", "4"),
            ("topic:77", "5"),
            ("7:3", "12"),
            (&fence, "2"),
            ("77:4", "9"),
            ("8", "1"),
        ];
        let position = decode(&fields).expect("a position");
        assert_eq!((position.next, position.topic), (7, 4));
        assert_eq!(position.fences, HashMap::from([(3, 12), (1023, 2)]));
    }

    #[test]
    fn a_damaged_field_is_named_and_fields_of_other_partitions_are_ignored() {
        let reason = decode(&[("7", "x"), ("8", "1")]).expect_err("no number");
        assert_eq!(
            reason,
            "field 7 of x:cnt-update:{7}:pos is not an offset: \"x\""
        );
        assert!(decode(&[("7", "1"), ("7:3", "-1")]).is_err());
        assert!(decode(&[("7", "1"), ("topic:7", "-1")]).is_err());
        assert!(decode(&[("7", "1"), ("8", "x"), ("8:7", "x")]).is_ok());
    }
}
