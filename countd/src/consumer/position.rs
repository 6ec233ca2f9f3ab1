//! How far a partition has been counted. It lies beside the counters, in one hash, and changes with them.

use crate::keys::Partition;
use crate::store::{Store, StoreError};
use std::collections::HashMap;

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

    /// Of a partition, in the fields of the hash that has it, maybe beside others.
    fn find(partition: Partition, fields: &HashMap<String, u64>) -> Position {
        let mut position = Position::start();
        if let Some(next) = fields.get(&next_field(partition)) {
            position.next = *next;
        }
        let prefix = format!("{partition}:");
        for (name, value) in fields {
            let source = name.strip_prefix(&prefix);
            if let Some(source) = source.and_then(|source| source.parse().ok()) {
                position.fences.insert(source, *value);
            }
        }
        position
    }
}

fn next_field(partition: Partition) -> String {
    partition.to_string()
}

/// The field of a fence in the hash of positions.
pub fn fence_field(partition: Partition, source: Partition) -> String {
    format!("{partition}:{source}")
}

/// The positions of some partitions.
///
/// # Errors
/// The store cannot be asked, or a position is damaged.
pub async fn load(store: &Store, partitions: &[Partition]) -> Result<Vec<Position>, StoreError> {
    if partitions.is_empty() {
        return Ok(Vec::new());
    }
    // Without hash tags one hash has them all, and no fences: nothing is handed over there.
    if !store.keys().tagged() {
        let next = next_offsets(store, partitions).await?;
        let position = |next| Position {
            next,
            ..Position::start()
        };
        return Ok(next.into_iter().map(position).collect());
    }
    let mut pipe = redis::pipe();
    for partition in partitions {
        pipe.cmd("HGETALL").arg(store.keys().position(*partition));
    }
    let found: Vec<HashMap<String, u64>> = pipe.query_async(&mut store.commands()).await?;
    let found = found.iter().zip(partitions);
    Ok(found
        .map(|(fields, partition)| Position::find(*partition, fields))
        .collect())
}

/// Where the counting of some partitions is, without their fences.
///
/// # Errors
/// The store cannot be asked, or a position is damaged.
pub async fn next_offsets(store: &Store, partitions: &[Partition]) -> Result<Vec<u64>, StoreError> {
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
    let found: Vec<Vec<Option<u64>>> = pipe.query_async(&mut store.commands()).await?;
    let found = found.into_iter().flatten();
    Ok(found.map(|next| next.unwrap_or(1)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, u64)]) -> HashMap<String, u64> {
        let pairs = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value));
        pairs.collect()
    }

    #[test]
    fn a_partition_without_a_position_is_at_its_start() {
        assert_eq!(Position::find(7, &fields(&[])), Position::start());
        assert_eq!(Position::find(7, &fields(&[("77", 3)])), Position::start());
    }

    #[test]
    fn fences_are_kept_by_source() {
        let fence = fence_field(7, 1023);
        let fields = fields(&[("7", 7), ("7:3", 12), (&fence, 2), ("77:4", 9), ("8", 1)]);
        let position = Position::find(7, &fields);
        assert_eq!(position.next, 7);
        assert_eq!(position.fences, HashMap::from([(3, 12), (1023, 2)]));
    }
}
