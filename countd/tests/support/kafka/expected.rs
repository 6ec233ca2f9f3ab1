//! What the records of a topic add up to.

use super::counted::copies;
use super::names::{KIND, OUTCOME};
use super::topic::Record;
use std::collections::{BTreeMap, BTreeSet};

/// Counts of repeatable metrics, by metric and entity (`note:1`).
pub type Expected = BTreeMap<(String, String), i64>;

/// The sum of the events in a topic: each record counts once, an envelope once for each `event_id` and partition, and copies not at all.
pub fn expected(records: &[Record]) -> Expected {
    sum(records.iter().filter(|record| record.source().is_none()))
}

/// The sum of the events of a topic and of the streams: [`expected`], and each event of a stream that was counted once, however many copies it
/// has. What has changed counters without an event is not in it.
pub fn expected_with_copies(records: &[Record]) -> Expected {
    let mut sums = expected(records);
    let copies = copies(records).into_values();
    let copies: Vec<Record> = copies
        .filter_map(|copies| copies.into_iter().next())
        .collect();
    let is_counted =
        |copy: &&Record| !copy.headers.contains_key(OUTCOME) && !copy.headers.contains_key(KIND);
    for (of, delta) in sum(copies.iter().filter(is_counted)) {
        *sums.entry(of).or_default() += delta;
    }
    sums
}

fn sum<'r>(records: impl Iterator<Item = &'r Record>) -> Expected {
    let mut sums = Expected::new();
    let mut seen = BTreeSet::new();
    for record in records {
        let json = record.json();
        let (event, etype, eid, metric) = match json["event_id"].as_str() {
            Some(id) => {
                if !seen.insert((record.key.clone(), id.to_owned())) {
                    continue;
                }
                let payload = match &json["payload"] {
                    serde_json::Value::String(text) => {
                        serde_json::from_str(text).expect("an event as text")
                    }
                    payload => payload.clone(),
                };
                let metric = payload["metric"].as_str().or(json["event_type"].as_str());
                let metric = metric.expect("a metric").to_owned();
                let (etype, eid) = (&json["aggregate_type"], &json["aggregate_id"]);
                (payload, etype.clone(), eid.clone(), metric)
            }
            None => {
                let metric = json["metric"].as_str().expect("a metric").to_owned();
                let (etype, eid) = (json["etype"].clone(), json["eid"].clone());
                (json, etype, eid, metric)
            }
        };
        let eid = eid.as_str().map_or_else(|| eid.to_string(), str::to_owned);
        let entity = format!("{}:{eid}", etype.as_str().expect("a type"));
        let delta = event["delta"].as_i64().expect("a delta");
        *sums.entry((metric, entity)).or_default() += delta;
    }
    sums
}
