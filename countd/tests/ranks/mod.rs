//! Rankings: exact by the counts of days, in every storage, while days change, processes are killed and keys are lost.

mod api;
mod changes;
pub mod days;
pub mod kills;
mod poison;
mod restore;
mod scores;
mod trim;

use crate::days::setup::CONFIG;
use crate::support::Api;
use crate::support::invariants::Invariants;
use crate::support::workload::Random;
use countint_tests::Server;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// The number of partitions.
const PARTITIONS: u16 = 16;
/// The weights of the ranking.
const WEIGHTS: [(&str, i64); 3] = [("read", 1), ("comment", 3), ("like", 5)];
/// The number of entities that the ranking lists.
const TOP: usize = 5;
/// The number of days of the ranking.
const WINDOW: u64 = 3;
const DAY_MS: u64 = 86_400_000;

/// Counts by day, and a ranking of notes.
pub fn config() -> String {
    format!("{CONFIG}{RANKING}")
}

/// The ranking.
const RANKING: &str = "[entities]\nnote = \"v1\"\npost = \"v1\"\n[rank]\ncache_ms = 0\n[rank.hot]\n\
    weights = { view = 1, comment = 3, like = 5 }\nwindow_days = 3\ntop = 5\nentities = [\"note\"]\n";

/// The IDs of the notes: numbers, which have rows, and others.
fn notes() -> Vec<String> {
    let number = |n: u64| match n % 4 {
        0 => format!("n.{n}"),
        _ => n.to_string(),
    };
    (1..=60).map(number).collect()
}

fn on(eid: &str, uid: u64) -> Json {
    json!({ "etype": "note", "eid": eid, "uid": uid })
}

/// The time of the test in milliseconds since 1970.
fn now_ms() -> u64 {
    let elapsed = std::time::SystemTime::UNIX_EPOCH.elapsed();
    elapsed.expect("a clock").as_millis() as u64
}

/// Some events on the notes, on several days.
fn act(api: &Api, random: &mut Random, count: u64) {
    let notes = notes();
    let any = |random: &mut Random| {
        // Some notes have more events than others.
        let at = random.below(60) * random.below(60) / 60;
        notes[at as usize].clone()
    };
    let mut envelopes = Vec::new();
    for _ in 0..count {
        let eid = any(random);
        match random.below(5) {
            0 => drop(api.act("like", on(&eid, random.below(9)))),
            1 => drop(api.act("unlike", on(&eid, random.below(9)))),
            2 => drop(api.act("comment", on(&eid, 1))),
            _ => {
                let id = random.below(u64::MAX / 2);
                let ts = now_ms() - random.below(5 * DAY_MS);
                let delta = [1, 2, 4, -1][random.below(4) as usize];
                let metric = ["read", "comment"][random.below(2) as usize];
                let payload = json!({ "metric": metric, "uid": 7, "delta": delta, "ts": ts });
                envelopes.push(json!({ "event_id": format!("e-{id}"), "event_type": "view", "aggregate_type": "note", "aggregate_id": eid, "payload": payload }));
            }
        }
    }
    let (status, response) = api.post("/events", &json!(envelopes));
    assert!(status < 300, "{response}");
}

/// Asserts the invariants except that of counts by day, which [`act`] violates: it takes away reads that were not there.
#[track_caller]
fn assert_invariants<'s>(servers: impl IntoIterator<Item = &'s Server>, config: &str) {
    Invariants::new(servers, config).without_days().assert();
}

/// A page of the ranking.
fn page(api: &Api, query: &str) -> (u16, Json) {
    api.get(&format!("/rank/hot?etype=note{query}"))
}

/// The entities of a page, with their scores.
fn items(page: &Json) -> Vec<(String, f64)> {
    let items = page["items"].as_array().expect("items").iter();
    let item = |item: &Json| {
        let eid = item["eid"].as_str().expect("an ID").to_owned();
        (eid, item["score"].as_f64().expect("a score"))
    };
    items.map(item).collect()
}

fn date(day: u64) -> String {
    countd::domain::day::with_dashes(countd::domain::day::civil(day))
}

/// The scores above 0 of all notes on a day, from their histories.
fn expected(api: &Api, day: &str) -> BTreeMap<String, f64> {
    let day = countd::domain::day::parse(day).expect("a date");
    let items: Vec<Json> = notes()
        .iter()
        .map(|eid| json!({ "etype": "note", "eid": eid }))
        .collect();
    let mut scores: BTreeMap<String, f64> = BTreeMap::new();
    for (metric, weight) in WEIGHTS {
        let request = json!({ "metric": metric, "items": items, "from": date(day + 1 - WINDOW), "to": date(day) });
        let response = api.ok(api.post("/history/batch", &request));
        for item in response["items"].as_array().expect("items") {
            let counts = item["counts"].as_array().expect("counts").iter();
            let sum: i64 = counts.map(|count| count.as_i64().expect("a count")).sum();
            let eid = item["eid"].as_str().expect("an ID").to_owned();
            *scores.entry(eid).or_default() += (weight * sum) as f64;
        }
    }
    scores.retain(|_, score| *score > 0.0);
    scores
}

/// Asserts that a page has no wrong entity. Returns whether it has all.
#[track_caller]
fn check(api: &Api, page: &Json) -> bool {
    let expected = expected(api, page["day"].as_str().expect("a date"));
    let mut scores: Vec<f64> = expected.values().copied().collect();
    scores.sort_by(|one, other| other.total_cmp(one));
    scores.truncate(TOP);
    let found = items(page);
    for (eid, score) in &found {
        assert_eq!(
            expected.get(eid),
            Some(score),
            "{eid} in {page}: {expected:?}"
        );
    }
    let of_page: Vec<f64> = found.iter().map(|(_, score)| *score).collect();
    assert!(scores.starts_with(&of_page), "{page}: {expected:?}");
    let is_complete = page["complete"].as_bool().expect("a boolean");
    assert!(!is_complete || of_page == scores, "{page}: {expected:?}");
    is_complete
}

/// Waits until the ranking answers without missing entities. Meanwhile no answer may be wrong.
#[track_caller]
fn wait_until_right(api: &Api) -> Json {
    let mut right = Json::Null;
    countint_tests::wait_until("the ranking is complete", || {
        let (status, page) = page(api, "");
        assert!(
            status == 200 || page["error"]["code"] == "not_filled" || page["code"] == "not_filled",
            "{status} {page}"
        );
        let is_right = status == 200 && check(api, &page);
        right = page;
        is_right
    });
    right
}
