//! Reads entries of streams of changes.

use super::cursor::EntryId;
use crate::domain::error::StoreError;
use crate::redis::permissions::Permissions;
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use redis::{FromRedisValue, Pipeline, RedisError, Value};
use std::collections::HashMap;
use std::sync::LazyLock;

/// Creates a stream.
static BEGIN: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::writing(include_str!("../../lua/changes_begin.lua")));

/// Commands that this file sends.
const PERMISSIONS: &[&str] = &[
    "TIME",
    "XRANGE {changes} - + COUNT 1",
    "XINFO STREAM {changes}",
];

/// The permissions to read changes.
pub fn required_permissions() -> Permissions {
    Permissions::of_commands(PERMISSIONS).and(BEGIN.required_permissions())
}

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

/// What was read of some streams.
pub(super) struct Replies<T> {
    /// The server's time at which they were read, in milliseconds.
    pub now_ms: u64,
    /// The reply for each stream. The error is that of the stream.
    pub streams: Vec<Result<T, StoreError>>,
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
pub(super) async fn read(
    store: &Store,
    from: &[(u16, String)],
) -> Result<Replies<Vec<ChangeEntry>>, StoreError> {
    let mut pipeline = redis::pipe();
    pipeline.cmd("TIME");
    for (partition, start) in from {
        let range = pipeline.cmd("XRANGE").arg(store.keys().changes(*partition));
        range.arg(&[start, "+", "COUNT"]).arg(PAGE);
    }
    query(store, pipeline, |reply| entries(reply?)).await
}

/// Reads the last ID that each stream has generated, also if its entry was deleted. `None` without a stream.
///
/// # Errors
/// Redis is unavailable.
pub(super) async fn read_ends(
    store: &Store,
    streams: &[u16],
) -> Result<Replies<Option<EntryId>>, StoreError> {
    let mut pipeline = redis::pipe();
    pipeline.cmd("TIME");
    for partition in streams {
        let info = pipeline.cmd("XINFO").arg("STREAM");
        info.arg(store.keys().changes(*partition));
    }
    query(store, pipeline, end).await
}

/// Creates a stream without entries, unless it exists. Returns its last ID, and `None` if it exists.
///
/// # Errors
/// Redis failed.
pub(super) async fn begin(store: &Store, partition: u16) -> Result<Option<EntryId>, StoreError> {
    let call = BEGIN.script.key(store.keys().changes(partition));
    let id: Option<String> = call.invoke_async(&mut store.commands()).await?;
    Ok(id.and_then(|id| EntryId::parse(&id)))
}

/// Sends a pipeline that begins with `TIME`. A lost connection is an error, because a reader has to go back after a failover.
async fn query<T>(
    store: &Store,
    mut pipeline: Pipeline,
    decode: impl Fn(Result<Value, RedisError>) -> Result<T, StoreError>,
) -> Result<Replies<T>, StoreError> {
    pipeline.ignore_errors();
    let replies: Vec<Result<Value, RedisError>> =
        pipeline.query_async(&mut store.commands()).await?;
    let mut replies = replies.into_iter();
    let missing = || StoreError::Unexpected("the reply of TIME".to_owned());
    let time = replies.next().ok_or_else(missing)??;
    let (seconds, micros): (u64, u64) =
        FromRedisValue::from_redis_value(time).map_err(|_| missing())?;
    Ok(Replies {
        now_ms: seconds * 1_000 + micros / 1_000,
        streams: replies.map(decode).collect(),
    })
}

fn end(reply: Result<Value, RedisError>) -> Result<Option<EntryId>, StoreError> {
    let malformed = || StoreError::Unexpected("the last ID of a stream of changes".to_owned());
    let info: HashMap<String, Value> = match reply {
        Ok(reply) => FromRedisValue::from_redis_value(reply).map_err(|_| malformed())?,
        Err(error) if error.to_string().contains("no such key") => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let last = info.get("last-generated-id").cloned();
    let last: String = last
        .and_then(|last| FromRedisValue::from_redis_value(last).ok())
        .ok_or_else(malformed)?;
    EntryId::parse(&last).map(Some).ok_or_else(malformed)
}

fn entries(reply: Value) -> Result<Vec<ChangeEntry>, StoreError> {
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
