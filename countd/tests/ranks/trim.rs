//! The sorted sets of a ranking are trimmed, also those of the partitions of a cluster.

use super::{PARTITIONS, TOP, config, items, now_ms, on, page};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, Countd, wait_until_drained};
use countint_tests::{Client, reply, wait_until};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

for_each_store! {
    [module plain cluster]
    a_trim_leaves_the_highest_scores_and_their_floor
}

/// More notes than a sorted set keeps. A cluster has a sorted set for each partition, so all are in one.
const NOTES: usize = 60;
/// The members that a sorted set keeps.
const KEPT: usize = 4 * TOP;

fn notes() -> Vec<String> {
    let ids = (1..).map(|number: u64| number.to_string());
    let first = TestStore::partition("note:1", PARTITIONS);
    ids.filter(|eid| TestStore::partition(&format!("note:{eid}"), PARTITIONS) == first)
        .take(NOTES)
        .collect()
}

/// Adds to the comments of notes, a part of all in each commit.
fn comment(api: &Api, counts: &[(String, i64)], prefix: &str) {
    for (number, part) in counts.chunks(20).enumerate() {
        let envelope = |(eid, delta): &(String, i64)| {
            let payload = json!({ "uid": 7, "delta": delta, "ts": now_ms() });
            json!({ "event_id": format!("{prefix}-{number}-{eid}"), "event_type": "comment", "aggregate_type": "note", "aggregate_id": eid, "payload": payload })
        };
        let envelopes: Vec<Json> = part.iter().map(envelope).collect();
        let (status, response) = api.post("/events", &json!(envelopes));
        assert!(status < 300, "{response}");
    }
}

/// The scores of the members of a day's sorted set, and its floor.
fn members(store: &TestStore, client: &mut Client, day: &str) -> (BTreeMap<String, f64>, f64) {
    let day = day.replace('-', "");
    let key = store.key(&format!("rank:hot:note:{day}"), "", "note:1");
    let number = countd::domain::day::parse(&day).expect("a date");
    let state = store.key("rank:hot:note:state", "", "note:1");
    // Both are of one moment.
    let script = "return { redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'), redis.call('HGET', KEYS[2], ARGV[1]) }";
    let field = format!("floor:{number}");
    let mut found = reply::array(client.call(&["EVAL", script, "2", &key, &state, &field]));
    let floor = found.pop().expect("a floor");
    let range = found.pop().expect("members");
    let words: Vec<String> = reply::array(range).into_iter().map(reply::text).collect();
    let member = |pair: &[String]| (pair[0].clone(), pair[1].parse().expect("a score"));
    let members = words.chunks(2).map(member).collect();
    (members, reply::text(floor).parse().expect("a floor"))
}

fn a_trim_leaves_the_highest_scores_and_their_floor(store: TestStore) {
    let countd = Countd::start(&store.server, &config());
    let api = countd.api();
    let mut client = store.server.client();
    // Each comment counts three. The order of the scores is not that of the IDs.
    let mut scores: BTreeMap<String, f64> = BTreeMap::new();
    let mut add = |counts: &[(String, i64)], prefix: &str| {
        comment(&api, counts, prefix);
        for (eid, delta) in counts {
            *scores.entry(eid.clone()).or_default() += 3.0 * *delta as f64;
        }
        wait_until_drained(&store.server, PARTITIONS);
        scores.clone()
    };
    let notes = notes();
    let numbered = notes.iter().enumerate();
    let first = numbered.map(|(at, eid)| (eid.clone(), 10 + (at * 37 % NOTES) as i64));
    let first: Vec<(String, i64)> = first.collect();
    // Notes below the floor rise above it, and members fall below it.
    let second: Vec<(String, i64)> = first
        .iter()
        .map(|(eid, count)| (eid.clone(), 200 - 3 * count))
        .collect();
    for (counts, prefix) in [(&first, "a"), (&second[..30].to_vec(), "b")] {
        let scores = add(counts, prefix);
        let mut sorted: Vec<(&String, f64)> =
            scores.iter().map(|(eid, score)| (eid, *score)).collect();
        sorted.sort_by(|one, other| other.1.total_cmp(&one.1));
        let expected: Vec<f64> = sorted[..TOP].iter().map(|(_, score)| *score).collect();
        let mut day = String::new();
        wait_until("the ranking has the first notes", || {
            let (status, page) = page(&api, "");
            if status != 200 {
                return false;
            }
            day = page["day"].as_str().expect("a date").to_owned();
            let found = items(&page).into_iter();
            found.map(|(_, score)| score).collect::<Vec<f64>>() == expected
        });
        let (members, floor) = members(&store, &mut client, &day);
        assert!(members.len() <= KEPT, "{prefix}: {}", members.len());
        assert!(members.len() >= TOP && floor > 0.0, "{prefix}: {floor}");
        for (eid, score) in &members {
            assert_eq!(Some(score), scores.get(eid), "{prefix}: {eid}");
            assert!(*score >= floor, "{prefix}: {eid} {score} {floor}");
        }
        let others = scores.iter().filter(|(eid, _)| !members.contains_key(*eid));
        for (eid, score) in others {
            assert!(*score <= floor, "{prefix}: {eid} {score} {floor}");
        }
    }
    // Another entity of the same partition does not enter below the floor.
    let low = (1_000..).map(|number: u64| number.to_string());
    let first = TestStore::partition("note:1", PARTITIONS);
    let mut low =
        low.filter(|eid| TestStore::partition(&format!("note:{eid}"), PARTITIONS) == first);
    let low = low.next().expect("an ID");
    api.act("comment", on(&low, 1));
    wait_until_drained(&store.server, PARTITIONS);
    let (_, found) = page(&api, "");
    let day = found["day"].as_str().expect("a date");
    assert!(!members(&store, &mut client, day).0.contains_key(&low));
}
