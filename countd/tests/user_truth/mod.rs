//! Counters of users are verified and corrected, and right ones are never changed.

mod command;
mod dead_letters;
mod followers;
mod followings;
mod many;
mod reading;
mod received;

use crate::support::stores::TestStore;
use countint_tests::{Client, Value, reply, wait_until};

const PARTITIONS: u16 = 16;
/// Every difference is corrected, and sweeps follow each other.
const CONFIG: &str = "[log]\npartitions = 16\n[consumer]\nlinger_ms = 5\nsession_timeout_ms = 500\n[reconcile]\ninterval_seconds = 1\nsample = 1\nmin_difference = 0\nmin_percent = 0.0\n[limits]\nuser = { per_second = 0, burst = 1000 }\n";

/// A slot of each partition.
pub fn slots(store: &TestStore) -> Vec<String> {
    match store.is_cluster() {
        true => (0..PARTITIONS).map(|p| format!(":{{{p}}}")).collect(),
        false => vec![String::new()],
    }
}

/// The entries of the audit: their fields.
pub fn audit(store: &TestStore, client: &mut Client) -> Vec<Vec<String>> {
    let mut entries = Vec::new();
    for slot in slots(store) {
        let key = format!("x:audit:cntfix{slot}");
        for entry in reply::array(client.call(&["XRANGE", &key, "-", "+"])) {
            let fields = reply::array(reply::array(entry)[1].clone());
            entries.push(fields.into_iter().map(reply::text).collect());
        }
    }
    entries
}

/// A field of an entry of the audit.
pub fn field<'e>(entry: &'e [String], name: &str) -> &'e str {
    let mut pairs = entry.chunks(2);
    let pair = pairs.find(|pair| pair[0] == name);
    pair.map_or("", |pair| &pair[1])
}

/// The number of the sweep over authors that every slot has ended.
fn ended_sweeps(store: &TestStore, client: &mut Client) -> u64 {
    let number = |value: &Value| -> u64 {
        match value {
            Value::Nil => 0,
            value => reply::text(value.clone()).parse().expect("a number"),
        }
    };
    let ended = slots(store).into_iter().map(|slot| {
        let key = format!("countd:sums{slot}");
        let state = reply::array(client.call(&["HMGET", &key, "sweep", "stage"]));
        match number(&state[1]) {
            6 => number(&state[0]),
            _ => number(&state[0]).saturating_sub(1),
        }
    });
    ended.min().unwrap_or(0)
}

/// Waits until a sweep that has not begun yet ends.
fn wait_for_sweep(store: &TestStore) {
    let mut client = store.server.client();
    let before = ended_sweeps(store, &mut client);
    for sweep in 1..=2 {
        wait_until("a sweep ends", || {
            ended_sweeps(store, &mut client) >= before + sweep
        });
    }
}

/// Sets a counter of a user.
pub fn forge(store: &TestStore, uid: &str, idx: usize, count: u64) {
    let key = store.user_counters(uid, PARTITIONS);
    let (idx, count) = (idx.to_string(), count.to_string());
    let mut client = store.server.client();
    match (store.has_module, key.starts_with("utab")) {
        (true, true) => client.call(&["CTAB.SET", &key, uid, "LEN", "5", &idx, &count]),
        (true, false) => client.call(&["CINT.SET", &key, &idx, &count]),
        (false, _) => {
            let field = format!("#{idx}");
            let set = ["BITFIELD", &key, "SET", "u40", &field, &count];
            // All users have five counters.
            client.call(&[&set[..], &["INCRBY", "u40", "#4", "0"]].concat())
        }
    };
}
