//! Configurations, damage and audits of the tests of reconciliation.

use crate::support::stores::TestStore;
use countint_tests::reply;
use std::collections::BTreeMap;

/// The number of partitions.
pub const PARTITIONS: u16 = 16;
/// The field of likes in the schema.
pub const LIKE: u16 = 1;

/// A configuration in which the consumer or the action counts likes (`count`). Favs change with their fact.
pub fn config(count: &str, reconcile: &str) -> String {
    format!(
        r#"
[log]
partitions = {PARTITIONS}
[consumer]
linger_ms = 5
session_timeout_ms = 500
[reconcile]
{reconcile}
[metrics.read]
nature = "repeatable"
count = "batched"
[metrics.like]
nature = "once"
count = "{count}"
users = [{{ counter = "likesReceived", of = "author" }}]
[metrics.fav]
nature = "once"
count = "now"
"#
    )
}

/// Settings without rounds.
pub const NO_ROUNDS: &str = "enabled = false\nmin_difference = 0\nmin_percent = 0";
/// A round each second, which compares everything and corrects every difference.
pub const EXACT_ROUNDS: &str =
    "interval_seconds = 1\nsample = 1\nmin_difference = 0\nmin_percent = 0";

/// Adds to a counter of an entity (`note:1`) behind the back of countd.
pub fn forge(store: &TestStore, entity: &str, idx: u16, delta: i64) {
    let key = store.counters("v1", entity, PARTITIONS);
    let (_, eid) = entity.split_once(':').expect("a type and an ID");
    let mut client = store.server.client();
    if key.starts_with("tab:") {
        client.ok(&format!("CTAB.BATCHINCR {key} {eid} LEN 5 {idx} {delta}"));
    } else if store.has_module {
        client.ok(&format!("CINT.BATCHINCR {key} LEN 5 {idx} {delta}"));
    } else {
        // It gets the length of its schema, and keeps what it has.
        client.ok(&format!("BITFIELD {key} INCRBY u40 #4 0"));
        client.ok(&format!("BITFIELD {key} INCRBY u40 #{idx} {delta}"));
    }
}

/// The entries of all audits.
pub fn audit(store: &TestStore) -> Vec<BTreeMap<String, String>> {
    let mut client = store.server.client();
    let keys: Vec<String> = match store.is_cluster() {
        true => (0..PARTITIONS)
            .map(|of| format!("x:audit:cntfix:{{{of}}}"))
            .collect(),
        false => vec!["x:audit:cntfix".to_owned()],
    };
    let entries = keys.iter().flat_map(|key| {
        let entries = client.call(&["XRANGE", key, "-", "+"]);
        reply::array(entries)
    });
    let fields = entries.map(|entry| {
        let fields = reply::array(reply::array(entry).pop().expect("fields"));
        let fields: Vec<String> = fields.into_iter().map(reply::text).collect();
        let pairs = fields.chunks(2);
        pairs
            .map(|pair| (pair[0].clone(), pair[1].clone()))
            .collect()
    });
    fields.collect()
}

/// The differences of all corrections, in order.
pub fn differences(store: &TestStore) -> Vec<String> {
    let entries = audit(store);
    let difference = |entry: &BTreeMap<String, String>| entry["difference"].clone();
    entries.iter().map(difference).collect()
}

/// The number of entries of the log of an entity.
pub fn log_length(store: &TestStore, entity: &str) -> i64 {
    let log = store.log(TestStore::partition(entity, PARTITIONS));
    reply::int(store.server.client().call(&["XLEN", &log]))
}
