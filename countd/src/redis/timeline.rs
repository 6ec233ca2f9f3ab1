//! The times of facts in timelines, and the call that reads the newest facts of a timeline.

use crate::domain::error::StoreError;
use crate::domain::ids::Id;
use crate::domain::keys::TimelineKeys;
use crate::redis::call::RedisCall;
use crate::redis::permissions::Permissions;
use crate::redis::script::{CounterBackend, LoadedScript};
use bytes::Buf;
use redis::{FromRedisValue, Value};
use std::sync::LazyLock;

/// Functions of scripts that change timelines.
pub const TIMELINES: &str = include_str!("../lua/timelines.lua");

static READ: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::reading(include_str!("../lua/timeline_read.lua")));

/// Times are stored in milliseconds since 2020: a counter has 40 bits, which last until 2054.
const EPOCH_MS: u64 = 1_577_836_800_000;
/// The latest time.
const MAX_TIME: u64 = (1 << 40) - 1;
/// The length of a time in a reply, in bytes.
const TIME_BYTES: usize = 5;

/// The stored form of a time in milliseconds since 1970. Times before 2020 are that of its first millisecond.
pub fn time_of(ts: u64) -> u64 {
    ts.saturating_sub(EPOCH_MS).clamp(1, MAX_TIME)
}

/// The newest facts of a timeline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewestFacts {
    /// The ID and the time of each in milliseconds since 1970, the newest first, then by ID in descending order.
    pub facts: Vec<(Id, u64)>,
    /// Whether there are older facts with numeric IDs.
    pub has_older_ids: bool,
    /// Whether there are older facts with other IDs.
    pub has_older_set: bool,
}

/// The permissions that reading a timeline requires.
pub fn required_permissions() -> Permissions {
    READ.required_permissions()
}

/// The call that reads the newest facts of a timeline. [`decode`] decodes its reply.
pub fn read_call(keys: &TimelineKeys, backend: CounterBackend) -> RedisCall {
    let has_tables = backend.has_tables();
    let mut all = vec![&keys.newest_set];
    if has_tables {
        all.push(&keys.newest_table);
    }
    // Data without the module has no sets of IDs, but the number of keys is the same.
    all.extend([&keys.older_ids, &keys.older_set].into_iter().flatten());
    let mut call = RedisCall::script(&READ, &all);
    call.cmd.arg(u8::from(has_tables));
    call
}

/// Decodes the reply of [`read_call`].
///
/// # Errors
/// The reply is malformed.
pub fn decode(reply: Value) -> Result<NewestFacts, StoreError> {
    type Reply = (Vec<String>, Vec<Vec<u8>>, Vec<(String, f64)>, Vec<bool>);
    let unexpected = || StoreError::Unexpected("the newest facts of a timeline".to_owned());
    let (ids, times, scored, older) = Reply::from_redis_value(reply).map_err(|_| unexpected())?;
    let times = times.concat();
    if times.len() != ids.len() * TIME_BYTES {
        return Err(unexpected());
    }
    let times = times.chunks(TIME_BYTES);
    let times = times.map(|mut time| time.get_uint(TIME_BYTES));
    let scored = scored.into_iter().map(|(id, time)| (id, time as u64));
    let mut facts = Vec::with_capacity(ids.len());
    for (id, time) in ids.into_iter().zip(times).chain(scored) {
        let id = Id::new(id).map_err(|_| unexpected())?;
        facts.push((id, EPOCH_MS.saturating_add(time)));
    }
    facts.sort_unstable_by(|(id, time), (other_id, other)| {
        let by_id = order_of(id).cmp(&order_of(other_id));
        other.cmp(time).then(by_id.reverse())
    });
    let has = |at: usize| older.get(at).copied().unwrap_or(false);
    Ok(NewestFacts {
        facts,
        has_older_ids: has(0),
        has_older_set: has(1),
    })
}

/// The order of IDs: that of their numbers.
fn order_of(id: &Id) -> (usize, &str) {
    (id.as_str().len(), id.as_str())
}

impl NewestFacts {
    /// The facts after one that was there.
    pub fn after(&self, last: Option<(&Id, u64)>) -> &[(Id, u64)] {
        let Some((id, time)) = last else {
            return &self.facts;
        };
        let is_before = |(other, of_other): &(Id, u64)| {
            *of_other > time || *of_other == time && order_of(other) >= order_of(id)
        };
        &self.facts[self.facts.partition_point(is_before)..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(bytes: &[u8]) -> Value {
        Value::BulkString(bytes.to_vec())
    }

    #[test]
    fn times_are_clamped() {
        assert_eq!(time_of(EPOCH_MS + 7), 7);
        assert_eq!((time_of(0), time_of(u64::MAX)), (1, MAX_TIME));
    }

    #[test]
    fn facts_are_newest_first_then_by_descending_id() {
        let reply = Value::Array(vec![
            Value::Array(["9", "10", "8"].map(|id| bulk(id.as_bytes())).to_vec()),
            Value::Array(vec![
                bulk(&[0, 0, 0, 0, 5, 0, 0, 0, 0, 5]),
                bulk(&[0, 0, 0, 0, 7]),
            ]),
            Value::Array(vec![bulk(b"a-b"), bulk(b"6")]),
            Value::Array(vec![Value::Int(0), Value::Int(1)]),
        ]);
        let newest = decode(reply).expect("facts");
        assert_eq!((newest.has_older_ids, newest.has_older_set), (false, true));
        let ids = |facts: &[(Id, u64)]| {
            facts
                .iter()
                .map(|(id, _)| id.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(&newest.facts), ["8", "a-b", "10", "9"]);
        let last = newest.facts[2].clone();
        assert_eq!(ids(newest.after(Some((&last.0, last.1)))), ["9"]);
        // The fact may have been removed.
        let gone = Id::new("99").expect("an ID");
        assert_eq!(ids(newest.after(Some((&gone, EPOCH_MS + 5)))), ["10", "9"]);
        assert!(decode(Value::Array(Vec::new())).is_err());
    }
}
