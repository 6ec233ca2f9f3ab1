//! Reads entries of streams of changes.

use super::cursor::EntryId;
use crate::domain::error::StoreError;
use crate::redis::store::Store;
use redis::{FromRedisValue, Pipeline, RedisError, Value};
use std::collections::HashMap;

/// Commands that reading changes requires.
pub const PERMISSIONS: &[&str] = &[
    "TIME",
    "XRANGE {changes} - + COUNT 1",
    "XREVRANGE {changes} + - COUNT 1",
];

/// The maximum number of entries that a read returns of a stream.
pub(super) const PAGE: usize = 128;
/// The maximum number of streams that are read at once.
const STREAMS: usize = 32;

/// An entry of a stream.
pub(super) struct ChangeEntry {
    /// Its ID.
    pub id: EntryId,
    /// The ID of the entry before it.
    pub previous: EntryId,
    /// The changed entities.
    pub content: String,
}

/// Entries of streams.
pub(super) struct Pages {
    /// The server's time at which they were read, in milliseconds.
    pub now_ms: u64,
    /// The entries of each stream. The error is that of the stream.
    pub pages: Vec<Result<Vec<ChangeEntry>, StoreError>>,
}

/// The streams, by their partitions, in groups that are read at once: those of a group are on one node.
pub(super) fn groups(store: &Store) -> Vec<Vec<u16>> {
    let nodes = store.node_map();
    let mut by_node: HashMap<usize, Vec<u16>> = HashMap::new();
    for partition in 0..store.keys().change_streams() {
        let node = by_node.entry(nodes.node_of(partition)).or_default();
        node.push(partition);
    }
    let chunks = |streams: Vec<u16>| -> Vec<Vec<u16>> {
        streams.chunks(STREAMS).map(<[u16]>::to_vec).collect()
    };
    by_node.into_values().flat_map(chunks).collect()
}

/// Reads the next entries of each stream, from its place on.
///
/// # Errors
/// Redis is unavailable.
pub(super) async fn read(store: &Store, from: &[(u16, String)]) -> Result<Pages, StoreError> {
    let mut pipeline = redis::pipe();
    pipeline.cmd("TIME");
    for (partition, start) in from {
        let range = pipeline.cmd("XRANGE").arg(store.keys().changes(*partition));
        range.arg(&[start, "+", "COUNT"]).arg(PAGE);
    }
    query(store, pipeline).await
}

/// Reads the last entry of each stream, if it has one.
///
/// # Errors
/// Redis is unavailable.
pub(super) async fn read_last(store: &Store, streams: &[u16]) -> Result<Pages, StoreError> {
    let mut pipeline = redis::pipe();
    pipeline.cmd("TIME");
    for partition in streams {
        let key = store.keys().changes(*partition);
        let range = pipeline.cmd("XREVRANGE").arg(key);
        range.arg(&["+", "-", "COUNT", "1"]);
    }
    query(store, pipeline).await
}

/// Sends a pipeline that begins with `TIME`. A lost connection is an error, because a reader has to go back after a failover.
async fn query(store: &Store, mut pipeline: Pipeline) -> Result<Pages, StoreError> {
    pipeline.ignore_errors();
    let replies: Vec<Result<Value, RedisError>> =
        pipeline.query_async(&mut store.commands()).await?;
    let mut replies = replies.into_iter();
    let missing = || StoreError::Unexpected("the reply of TIME".to_owned());
    let time = replies.next().ok_or_else(missing)??;
    let (seconds, micros): (u64, u64) =
        FromRedisValue::from_redis_value(time).map_err(|_| missing())?;
    Ok(Pages {
        now_ms: seconds * 1_000 + micros / 1_000,
        pages: replies.map(|reply| decode(reply?)).collect(),
    })
}

fn decode(reply: Value) -> Result<Vec<ChangeEntry>, StoreError> {
    let malformed = || StoreError::Unexpected("a malformed entry of changes".to_owned());
    let entries: Vec<(String, HashMap<String, String>)> =
        FromRedisValue::from_redis_value(reply).map_err(|_| malformed())?;
    let entry = |(id, mut fields): (String, HashMap<String, String>)| {
        Some(ChangeEntry {
            id: EntryId::parse(&id)?,
            previous: EntryId::parse(fields.get("p")?)?,
            content: fields.remove("n")?,
        })
    };
    let entries = entries.into_iter().map(entry).collect::<Option<_>>();
    entries.ok_or_else(malformed)
}
