//! What consumers have corrected, and the counters that differed in the last rounds of reconciliation, for processes that compare nothing
//! themselves.

use super::samples::{Family, Samples};
use crate::domain::keys::Partition;
use crate::redis::store::Store;
use redis::{FromRedisValue, RedisError, Value};
use std::collections::HashMap;

/// Commands that this file sends.
pub const PERMISSIONS: &[&str] = &["XINFO STREAM {audit}", "HLEN {drift}"];

const ENTRIES: &str = "countd_audit_entries_total";
const DRIFTING: &str = "countd_drifting_counters";

#[rustfmt::skip]
pub const FAMILIES: [Family; 2] = [
    Family::counter(ENTRIES, "Entries of the audit since the data exists: corrections and adjustments of counters, by all processes"),
    Family::gauge(DRIFTING, "Counters that differed from their facts in the last rounds of reconciliation, up to 1,000 for each partition"),
];

/// Reads the audits and the differences of all slots. Without samples if a node is unavailable: a part of them would look like all.
pub async fn collect(store: &Store) -> Samples {
    match read(store).await {
        Ok(samples) => samples,
        Err(error) => {
            tracing::debug!(%error, "the audit cannot be collected");
            Samples::default()
        }
    }
}

async fn read(store: &Store) -> Result<Samples, RedisError> {
    let keys = store.keys();
    let slots: std::ops::Range<Partition> = 0..if keys.tagged() { keys.partitions() } else { 1 };
    let mut pipeline = redis::pipe();
    for slot in slots {
        pipeline.cmd("XINFO").arg("STREAM").arg(keys.audit(slot));
        pipeline.cmd("HLEN").arg(keys.drift(slot));
    }
    // A stream that does not exist is an error.
    pipeline.ignore_errors();
    let replies: Vec<Result<Value, RedisError>> = pipeline.query_async(&mut store.reads()).await?;
    let (mut entries, mut drifting) = (Some(0), 0);
    for reply in replies.chunks(2) {
        if let [Ok(stream), _] = reply {
            // Servers before Redis 7.0 do not count them.
            entries = entries.zip(added(stream)).map(|(sum, added)| sum + added);
        }
        if let [_, Ok(Value::Int(count))] = reply {
            drifting += count;
        }
    }
    let mut samples = Samples::default();
    if let Some(entries) = entries {
        samples.add(ENTRIES, &[], entries as f64);
    }
    samples.add(DRIFTING, &[], drifting as f64);
    Ok(samples)
}

/// The number of entries that were ever added to a stream.
fn added(stream: &Value) -> Option<u64> {
    let fields = HashMap::<String, Value>::from_redis_value(stream.clone()).ok()?;
    u64::from_redis_value(fields.get("entries-added")?.clone()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_were_added_are_counted() {
        let field = |name: &str, value| [Value::BulkString(name.into()), value];
        let fields = [
            field("length", Value::Int(3)),
            field("entries-added", Value::Int(17)),
        ];
        assert_eq!(added(&Value::Array(fields.concat())), Some(17));
        let old = field("length", Value::Int(3)).to_vec();
        assert_eq!(added(&Value::Array(old)), None);
        assert_eq!(added(&Value::Nil), None);
    }
}
