//! Scores of windows and of half-lives.

use super::{
    PARTITIONS, act, assert_invariants, config, items, notes, now_ms, on, page, wait_until_right,
};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::workload::Random;
use crate::support::{
    Countd, Settings, set_schema, wait_until_all_drained, wait_until_drained, with,
};
use countint_tests::{Cluster, reply};
use serde_json::{Value as Json, json};

for_each_store! {
    [module objects plain cluster]
    a_window_ranking_is_exact
    a_decaying_ranking_is_within_its_stated_error
}

fn a_window_ranking_is_exact(store: TestStore) {
    let countd = Countd::start(&store.server, &config());
    let api = countd.api();
    let empty = wait_until_right(&api);
    assert_eq!(empty["items"], json!([]));
    let mut random = Random(7);
    for round in 0..4 {
        act(&api, &mut random, 200);
        wait_until_drained(&store.server, PARTITIONS);
        let page = wait_until_right(&api);
        assert_eq!(
            page["items"].as_array().map(Vec::len),
            Some(5),
            "round {round}"
        );
    }
    // The first entities fall below the floor, until fewer than listed are left above it.
    for round in 0..5 {
        let first = items(&wait_until_right(&api));
        for (eid, _) in first {
            let entity = json!({ "etype": "note", "eid": eid });
            for metric in ["read", "comment"] {
                let body = with(entity.clone(), json!({ "metric": metric }));
                api.ok(api.post("/counter/reset", &body));
            }
            for uid in 0..9 {
                api.act("unlike", on(&eid, uid));
            }
        }
        wait_until_drained(&store.server, PARTITIONS);
        let page = wait_until_right(&api);
        assert!(
            !page["items"].as_array().expect("items").is_empty(),
            "round {round}"
        );
    }
    // An adjustment, and the removal of what is not there.
    let body = json!({ "etype": "note", "eid": "1", "metric": "comment", "reason": "a test", "add": 1000 });
    api.ok(api.post("/counter/adjust", &body));
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(items(&wait_until_right(&api))[0].0, "1");
    let body = with(body, json!({ "add": -1000 }));
    api.ok(api.post("/counter/adjust", &body));
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_right(&api);
    // Pages add up to the whole list.
    let whole = page(&api, "&limit=100").1;
    let (mut paged, mut cursor) = (Vec::new(), String::new());
    loop {
        let (status, part) = page(&api, &format!("&limit=2{cursor}"));
        assert_eq!((status, &part["day"]), (200, &whole["day"]), "{part}");
        paged.extend(items(&part));
        match part["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(paged, items(&whole));
    // The sorted sets are bounded.
    let mut client = store.server.client();
    for key in reply::array(client.ok("KEYS rank:hot:note:2*")) {
        let card = reply::int(client.call(&["ZCARD", &reply::text(key)]));
        assert!(card <= 20, "{card}");
    }
}

/// The nodes have groups of the ranking, which a request merges.
#[test]
fn a_ranking_is_exact_on_three_nodes() {
    let cluster = Cluster::with(|builder| builder.append_only(true));
    let config = config();
    set_schema(&cluster.nodes[0], &config);
    let settings = |command| Settings {
        command,
        config: &config,
    };
    let countd = Countd::with(&cluster.nodes[0], &settings("all"));
    let mut other = Countd::with(&cluster.nodes[0], &settings("consume"));
    let api = countd.api();
    let mut random = Random(11);
    for round in 0..3 {
        act(&api, &mut random, 200);
        wait_until_all_drained(cluster.nodes.iter(), PARTITIONS);
        let page = wait_until_right(&api);
        assert_eq!(
            page["items"].as_array().map(Vec::len),
            Some(5),
            "round {round}"
        );
        other.kill();
        other.launch();
    }
    let nodes = cluster.nodes.iter().filter(|node| {
        let keys = node.client().ok("KEYS rank:hot:note:2*");
        !reply::array(keys).is_empty()
    });
    assert!(nodes.count() >= 2, "the ranking is on several nodes");
    assert_invariants(&cluster.nodes, &config);
}

fn a_decaying_ranking_is_within_its_stated_error(store: TestStore) {
    const HOURS: f64 = 48.0;
    let config = config().replace(
        "window_days = 3\ntop = 5",
        "half_life_hours = 48\ntop = 100",
    );
    let countd = Countd::start(&store.server, &config);
    let api = countd.api();
    let (mut random, start) = (Random(11), now_ms());
    let mut events: Vec<(String, u64, i64)> = Vec::new();
    let mut envelopes: Vec<Json> = Vec::new();
    for id in 0..400 {
        let eid = notes()[random.below(60) as usize].clone();
        let (ts, delta) = (
            start - random.below(25 * super::DAY_MS),
            random.below(9) as i64 + 1,
        );
        let payload = json!({ "metric": "read", "uid": 7, "delta": delta, "ts": ts });
        envelopes.push(json!({ "event_id": format!("e-{id}"), "event_type": "view", "aggregate_type": "note", "aggregate_id": eid, "payload": payload }));
        events.push((eid, ts, delta));
    }
    for part in envelopes.chunks(100) {
        let (status, response) = api.post("/events", &json!(part));
        assert!(status < 300, "{response}");
    }
    wait_until_drained(&store.server, PARTITIONS);
    let mut found = Vec::new();
    countint_tests::wait_until("the ranking is filled", || {
        let (status, page) = page(&api, "&limit=100");
        found = if status == 200 {
            items(&page)
        } else {
            Vec::new()
        };
        found.len() >= 50
    });
    let today = |ts: u64| ts / super::DAY_MS;
    for (eid, score) in found {
        let of_note = events.iter().filter(|(other, ..)| *other == eid);
        let (mut stepped, mut continuous, mut omitted) = (0.0, 0.0, 0.0);
        for (_, ts, delta) in of_note {
            let age = today(start) - today(*ts);
            let hours = (start - ts) as f64 / 3_600_000.0;
            let weight = *delta as f64 * 2_f64.powf(-hours / HOURS);
            // Ten half-lives are twenty days.
            if age < 20 {
                stepped += *delta as f64 * 2_f64.powf(-24.0 * age as f64 / HOURS);
                continuous += weight;
            } else {
                omitted += weight;
                assert!(weight < *delta as f64 * 2_f64.powf(24.0 / HOURS) / 1024.0);
            }
        }
        assert!(
            (score - stepped).abs() <= 1e-9 * stepped,
            "{eid}: {score}, {stepped}"
        );
        let bound = (2_f64.powf(24.0 / HOURS) - 1.0) * continuous;
        assert!(
            (score - continuous).abs() <= bound,
            "{eid}: {score}, {continuous}"
        );
        assert!(omitted >= 0.0);
    }
}
