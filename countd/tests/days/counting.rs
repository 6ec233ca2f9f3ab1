//! Counting by day, in the step that counts.

use super::setup::{CONFIG, PARTITIONS, assert_days_add_up, history, sum, total};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, Countd, Settings, dead_reasons, wait_until_drained, with};
use countint_tests::reply;
use serde_json::{Value as Json, json};

for_each_store! {
    [module objects plain cluster]
    days_add_up_to_the_counter
    resets_and_adjusts_keep_i2
    late_events_go_to_their_own_day
    erased_entities_have_no_days
    a_damaged_stream_loses_no_count
}

fn on(eid: &str, uid: u64) -> Json {
    json!({ "etype": "note", "eid": eid, "uid": uid })
}

/// The day of a number of days before the one of the server.
fn date(store: &TestStore, before: i64) -> String {
    let time = reply::array(store.server.client().ok("TIME"));
    let seconds: i64 = reply::text(time[0].clone()).parse().expect("a number");
    let day = u64::try_from(seconds / 86_400 - before).expect("a day");
    countd::domain::day::with_dashes(countd::domain::day::civil(day))
}

fn envelope(id: u64, eid: &str, metric: &str, ts: i64) -> Json {
    let payload = json!({ "metric": metric, "uid": 7, "delta": 2, "ts": ts });
    json!({ "event_id": format!("e-{id}"), "event_type": metric, "aggregate_type": "note", "aggregate_id": eid, "payload": payload })
}

fn send(api: &Api, events: &[Json]) {
    let (status, response) = api.post("/events", &json!(events));
    assert!(status < 300, "{response}");
}

fn days_add_up_to_the_counter(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    for eid in ["1", "2", "a.7"] {
        for uid in 1..=6 {
            for metric in super::setup::METRICS {
                let action = match uid % 2 {
                    0 => with(on(eid, uid), json!({ "author": 99 })),
                    _ => on(eid, uid),
                };
                let action = match uid % 3 {
                    0 => with(action, json!({ "idempotencyKey": format!("k{uid}") })),
                    _ => action,
                };
                // A repeat counts again, except facts, windows and idempotency keys.
                api.act(metric, action.clone());
                api.act(metric, action);
            }
        }
        api.act("unlike", on(eid, 2));
        api.act("unlike", on(eid, 77));
        api.act("unfav", on(eid, 3));
        api.act("comment", with(on(eid, 1), json!({ "op": "remove" })));
        api.act("read", with(on(eid, 1), json!({ "op": "remove" })));
    }
    for (id, (eid, metric)) in [
        ("1", "read"),
        ("1", "comment"),
        ("2", "like"),
        ("a.7", "read"),
    ]
    .iter()
    .enumerate()
    {
        send(&api, &[envelope(id as u64, eid, metric, 0)]);
    }
    wait_until_drained(&store.server, PARTITIONS);
    assert!(dead_reasons(&store.server, CONFIG).is_empty());
    for eid in ["1", "2", "a.7"] {
        assert_days_add_up(&store, &api, eid);
    }
    let counts = api.counts(1);
    // Six users, twice, without the two repeats with an idempotency key; one was taken back; an envelope of 2.
    assert_eq!(counts["read"], 12 - 2 - 1 + 2);
    assert_eq!(counts["like"], 5);
    assert_eq!(counts["fav"], 5);
    assert_eq!(counts["repost"], 6);
    let today = history(&api, "like", "1");
    let items = today["items"].as_array().expect("items");
    assert_eq!(items.len(), 30);
    let days = items.iter().filter(|item| item["count"] != 0).count();
    assert!((1..=2).contains(&days), "{today}");
}

fn resets_and_adjusts_keep_i2(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    for eid in ["1", "a.7"] {
        for uid in 1..=5 {
            for metric in super::setup::METRICS {
                api.act(metric, on(eid, uid));
            }
        }
        wait_until_drained(&store.server, PARTITIONS);
        let reset = json!({ "metric": "read", "etype": "note", "eid": eid });
        assert_eq!(api.ok(api.post("/counter/reset", &reset))["was"], 5);
        assert_eq!(sum(&history(&api, "read", eid)), 0);
        for (metric, change) in [
            ("comment", json!({ "add": 10 })),
            ("like", json!({ "add": -2 })),
            ("read", json!({ "set": 4 })),
            ("repost", json!({ "set": 5 })),
        ] {
            let body = json!({ "etype": "note", "eid": eid, "metric": metric, "reason": "a test" });
            api.ok(api.post("/counter/adjust", &with(body, change)));
        }
        api.act("read", on(eid, 1));
        wait_until_drained(&store.server, PARTITIONS);
        assert_days_add_up(&store, &api, eid);
        assert_eq!(total(&store, "comment", eid), 15);
    }
}

/// Posts events at times before now: each of 2.
fn send_late(api: &Api, store: &TestStore, eid: &str, days: &[i64]) {
    let time = reply::array(store.server.client().ok("TIME"));
    let seconds: i64 = reply::text(time[0].clone()).parse().expect("a number");
    let events = days.iter().map(|before| {
        let ts = (seconds - before * 86_400) * 1000;
        envelope((before + 10_000) as u64, eid, "read", ts)
    });
    send(api, &events.collect::<Vec<_>>());
}

fn late_events_go_to_their_own_day(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    let today = date(&store, 0);
    send_late(&api, &store, "1", &[0, 1, 1000, 40, 29, 30, -1, -5, 5_000]);
    wait_until_drained(&store.server, PARTITIONS);
    if date(&store, 0) != today {
        return;
    }
    let (from, to) = (date(&store, 40), date(&store, 0));
    let path = format!("/history/view/note/1?from={from}&to={to}");
    let found = api.ok(api.get(&path));
    let counts: Vec<(i64, i64)> = found["items"]
        .as_array()
        .expect("items")
        .iter()
        .zip(0..)
        .map(|(item, at)| (40 - at, item["count"].as_i64().expect("a count")))
        .filter(|(_, count)| *count != 0)
        .collect();
    // Events without a plausible time count today: of the future, and older than the oldest day.
    assert_eq!(
        counts,
        [(40, 2), (30, 2), (29, 2), (1, 2), (0, 8)],
        "{found}"
    );
    assert_eq!(found["before"], 2);
    assert_days_add_up(&store, &api, "1");
    let mut client = store.server.client();
    let key = |part: &str| store.key("h:agg:read:note:1", part, "note:1");
    assert_eq!(reply::int(client.call(&["HLEN", &key("")])), 3);
    assert_eq!(reply::int(client.call(&["HLEN", &key(":history")])), 3);
    let stream = |before: i64| {
        let date = date(&store, before).replace('-', "");
        store.key("x:read:note:1:", &date, "note:1")
    };
    assert_eq!(reply::int(client.call(&["XLEN", &stream(0)])), 4);
    assert_eq!(reply::int(client.call(&["XLEN", &stream(1)])), 1);
    assert_eq!(reply::int(client.call(&["EXISTS", &stream(30)])), 0);
}

/// Events count, with the effects of counted actions, although the stream of their day has another type.
fn a_damaged_stream_loses_no_count(store: TestStore) {
    let comment = "[metrics.comment]\nnature = \"repeatable\"\ncount = \"now\"\n";
    assert!(CONFIG.contains(comment));
    let config = CONFIG.replace(comment, &format!("{comment}reads = \"stream\"\n"));
    let countd = Countd::start(&store.server, &config);
    let api = countd.api();
    let mut client = store.server.client();
    for metric in ["read", "comment"] {
        let key = store.key(
            &format!("x:{metric}:note:1:"),
            &date(&store, 0).replace('-', ""),
            "note:1",
        );
        client.call(&["SET", &key, "other"]);
        for uid in 1..=3 {
            api.act(metric, on("1", uid));
        }
    }
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(dead_reasons(&store.server, &config), Vec::<String>::new());
    assert_eq!(api.counts(1)["read"], 3);
    assert_eq!(api.counts(1)["comment"], 3);
    assert_days_add_up(&store, &api, "1");
}

fn erased_entities_have_no_days(store: TestStore) {
    erase_entities(&store, CONFIG);
    // Days that are not kept any more are erased, too.
    let without = CONFIG
        .replace("daily = true", "")
        .replace("reads = \"stream\"", "");
    erase_entities(&store, &without);
}

/// Counts events with days, and erases the entities by a process with this configuration.
fn erase_entities(store: &TestStore, config: &str) {
    let mut countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    for eid in ["1", "a.7"] {
        for uid in 1..=3 {
            for metric in super::setup::METRICS {
                api.act(metric, on(eid, uid));
            }
        }
    }
    wait_until_drained(&store.server, PARTITIONS);
    countd.stop();
    let settings = Settings {
        command: "all",
        config,
    };
    let countd = Countd::with(&store.server, &settings);
    let api = countd.api();
    for eid in ["1", "a.7"] {
        let (status, job) = api.delete(&format!("/entity/note/{eid}"));
        assert!(status < 300, "{job}");
        let path = format!("/jobs/{}", job["id"].as_str().expect("an ID"));
        countint_tests::wait_until("the entity is erased", || {
            api.ok(api.get(&path))["state"] == "done"
        });
        for metric in super::setup::METRICS {
            assert_eq!(super::setup::total(store, metric, eid), 0, "{metric}");
        }
    }
    let mut client = store.server.client();
    for pattern in ["h:agg:*", "toth:*", "x:read:*"] {
        let keys = reply::array(client.call(&["KEYS", pattern]));
        assert!(keys.is_empty(), "{keys:?}");
    }
}

#[test]
fn erased_users_are_removed_from_streams() {
    let store = crate::support::stores::module();
    let mut countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    for uid in [1, 2, 1, 3] {
        api.act("read", on("1", uid));
    }
    wait_until_drained(&store.server, PARTITIONS);
    let mut client = store.server.client();
    // Foreign keys: a name, and a stream whose values are no text.
    let foreign: Vec<&[u8]> = vec![b"XADD", b"x:read:\xff:1:20261101", b"*", b"uid", b"1"];
    client.pipeline(&[foreign]);
    let foreign: Vec<&[u8]> = vec![b"XADD", b"x:read:other:1:20261101", b"*", b"\xfe", b"\xff"];
    client.pipeline(&[foreign]);
    // Streams that are not written any more.
    countd.stop();
    let config = &CONFIG.replace("reads = \"stream\"", "");
    let settings = Settings {
        command: "all",
        config,
    };
    let countd = Countd::with(&store.server, &settings);
    let api = countd.api();
    let (_, job) = api.delete("/user/1");
    let path = format!("/jobs/{}", job["id"].as_str().expect("an ID"));
    countint_tests::wait_until("the user is erased", || {
        api.ok(api.get(&path))["state"] == "done"
    });
    let keys = reply::array(client.call(&["KEYS", "x:read:note:*"]));
    let streams = keys.into_iter().map(|key| {
        let key = reply::text(key);
        reply::int(client.call(&["XLEN", &key]))
    });
    assert_eq!(streams.sum::<i64>(), 2);
    assert_eq!(api.counts(1)["read"], 4);
}

#[test]
fn utc_offset_moves_midnight() {
    for (offset, expected) in [("+00:00", [2, 0]), ("+05:30", [0, 2]), ("-05:30", [2, 0])] {
        let store = crate::support::stores::module();
        let config = format!("{CONFIG}[days]\nutc_offset = \"{offset}\"\n");
        let countd = Countd::start(&store.server, &config);
        let api = countd.api();
        let (yesterday, today) = (date(&store, 1), date(&store, 0));
        // An hour before midnight UTC.
        let midnight = countd::domain::day::parse(&today).expect("a date") * 86_400_000;
        send(
            &api,
            &[envelope(1, "1", "read", midnight as i64 - 3_600_000)],
        );
        wait_until_drained(&store.server, PARTITIONS);
        let path = format!("/history/read/note/1?from={yesterday}&to={today}");
        let found = api.ok(api.get(&path));
        let counts: Vec<&Json> = (0..2).map(|at| &found["items"][at]["count"]).collect();
        assert_eq!(counts, expected.iter().collect::<Vec<_>>(), "{found}");
    }
}
