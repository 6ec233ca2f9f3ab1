//! The configuration, and the clients that act meanwhile.

use crate::support::workload::Random;
use crate::support::{Api, pause};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

pub const PARTITIONS: u16 = 16;

pub fn config(facts: &str, reconcile: &str) -> String {
    format!(
        r#"
[log]
partitions = {PARTITIONS}
[consumer]
linger_ms = 5
batch = 50
session_timeout_ms = 500
[limits]
user = {{ per_second = 0 }}
[facts]
shards = 3
days = 1
compaction_interval_seconds = 1
[reconcile]
{reconcile}
[metrics.read]
nature = "repeatable"
count = "batched"
daily = true
[metrics.like]
nature = "once"
count = "now"
facts = "{facts}"
reverse = true
users = [{{ counter = "likesReceived", of = "author" }}]
[metrics.fav]
nature = "once"
count = "batched"
facts = "{facts}"
users = [{{ counter = "favsReceived", of = "author" }}]
[metrics.follow]
nature = "once"
count = "never"
facts = "{facts}"
reverse = true
entities = ["user"]
users = [{{ counter = "followings", of = "actor" }}, {{ counter = "followers", of = "target" }}]
[metrics.publish]
nature = "once"
count = "never"
facts = "{facts}"
reverse = true
users = [{{ counter = "posts", of = "actor" }}]
"#
    )
}

/// The same, and all counters of notes have counts by day.
pub fn daily_config(facts: &str) -> String {
    let config = config(facts, ROUND);
    ["like", "fav"].iter().fold(config, |config, metric| {
        let table = format!("[metrics.{metric}]\n");
        config.replace(&table, &format!("{table}daily = true\n"))
    })
}

/// A round each second, which compares everything and corrects every difference.
pub const ROUND: &str = "interval_seconds = 1\nsample = 1\nmin_difference = 0\nmin_percent = 0";

/// What the clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// They add and remove facts.
    Change,
    /// They also read notes. The counter of reads has no source but its days.
    Read,
    /// They only add facts, so a counter that is too low never saturates: the audit has exactly what was damaged.
    Add,
}

/// Random actions of users 1 to 30 on 40 notes, ten of which have other IDs than numbers. Their results are not needed.
pub fn run_client(api: &Api, seed: u64, clients: Clients, stop: &AtomicBool) {
    let mut random = Random(seed);
    while !stop.load(Relaxed) {
        let lines: Vec<String> = (0..1 + random.below(20))
            .map(|_| action(&mut random, clients))
            .collect();
        // A killed process does not answer.
        if api.try_post("/actions", &lines.join("\n")).is_err() {
            pause();
        }
    }
}

fn action(random: &mut Random, clients: Clients) -> String {
    // Facts can be added only once.
    let users = if clients == Clients::Add { 3_000 } else { 30 };
    let (note, uid) = (random.below(40), 1 + random.below(users));
    let eid = match note {
        30.. => format!("n-{note}"),
        _ => note.to_string(),
    };
    let op = match random.below(5) {
        3.. if clients != Clients::Add => "remove",
        _ => "add",
    };
    let author = 1 + note % 7;
    let metric = match random.below(8) {
        7 if clients == Clients::Read => "read",
        6 | 7 => "follow",
        5 => "publish",
        3 | 4 => "fav",
        _ => "like",
    };
    let action = match metric {
        "follow" => {
            let target = (1 + random.below(30)).to_string();
            json!({ "metric": metric, "etype": "user", "eid": target, "uid": uid, "op": op })
        }
        "read" => json!({ "metric": metric, "etype": "note", "eid": eid, "uid": uid }),
        "publish" => json!({ "metric": metric, "etype": "note", "eid": eid, "uid": uid, "op": op }),
        _ => {
            json!({ "metric": metric, "etype": "note", "eid": eid, "uid": uid, "op": op, "author": author })
        }
    };
    action.to_string()
}
