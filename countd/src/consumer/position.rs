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

    fn parse(fields: HashMap<String, String>) -> Option<Position> {
        let mut position = Position::start();
        for (name, value) in fields {
            let value = value.parse().ok()?;
            if name == "next" {
                position.next = value;
            } else {
                let source = name.strip_prefix('f')?.parse().ok()?;
                position.fences.insert(source, value);
            }
        }
        Some(position)
    }
}

/// The positions of some partitions.
///
/// # Errors
/// The store cannot be asked, or a position is damaged.
pub async fn load(store: &Store, partitions: &[Partition]) -> Result<Vec<Position>, StoreError> {
    if partitions.is_empty() {
        return Ok(Vec::new());
    }
    let mut pipe = redis::pipe();
    for partition in partitions {
        pipe.cmd("HGETALL").arg(store.keys().position(*partition));
    }
    let found: Vec<HashMap<String, String>> = pipe.query_async(&mut store.commands()).await?;
    let parsed = found
        .into_iter()
        .zip(partitions)
        .map(|(fields, partition)| {
            let damaged = || {
                StoreError::Unexpected(format!("{} is damaged", store.keys().position(*partition)))
            };
            Position::parse(fields).ok_or_else(damaged)
        });
    parsed.collect()
}

/// Where the counting of some partitions is, without their fences.
///
/// # Errors
/// The store cannot be asked.
pub async fn next_offsets(store: &Store, partitions: &[Partition]) -> Result<Vec<u64>, StoreError> {
    if partitions.is_empty() {
        return Ok(Vec::new());
    }
    let mut pipe = redis::pipe();
    for partition in partitions {
        pipe.cmd("HGET")
            .arg(store.keys().position(*partition))
            .arg("next");
    }
    let found: Vec<Option<u64>> = pipe.query_async(&mut store.commands()).await?;
    Ok(found.into_iter().map(|next| next.unwrap_or(1)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        let pairs = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        pairs.collect()
    }

    #[test]
    fn a_partition_without_a_position_is_at_its_start() {
        assert_eq!(Position::parse(fields(&[])), Some(Position::start()));
    }

    #[test]
    fn fences_are_kept_by_source() {
        let position = Position::parse(fields(&[("next", "7"), ("f3", "12"), ("f1023", "2")]));
        let position = position.expect("a position");
        assert_eq!(
            (position.next, position.fences[&3], position.fences[&1023]),
            (7, 12, 2)
        );
        for bad in [[("next", "x")], [("g3", "1")], [("f", "1")]] {
            assert_eq!(Position::parse(fields(&bad)), None, "{bad:?}");
        }
    }
}
