//! Entries that other clients append under foreign IDs: each counts or becomes a dead letter, and delays no other entries.

use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{
    Api, Countd, Settings, dead_reasons, on_note, printed, run, set_schema, wait_until_drained,
    with,
};
use countint_tests::{Client, reply, wait_until};
use serde_json::json;

const CONFIG: &str =
    "[log]\npartitions = 1\nretain = 10\n[consumer]\nlinger_ms = 5\nsession_timeout_ms = 500\n";

/// Foreign IDs. The log accepts no `0-*` entry after them.
const IDS: [&str; 4] = [
    "1700000000000-0",
    "*",
    "0-18446744073709551615",
    "18446744073709551615-18446744073709551615",
];

fn start(store: &TestStore, command: &'static str) -> Countd {
    let config = CONFIG;
    Countd::with(&store.server, &Settings { command, config })
}

fn read(eid: u64) -> String {
    with(on_note(eid, 9), json!({ "metric": "read", "delta": 1 })).to_string()
}

fn envelope(event_id: &str, eid: u64) -> String {
    let payload = json!({ "metric": "read", "delta": 1, "uid": 9 });
    json!({
        "event_id": event_id, "event_type": "x", "aggregate_type": "note", "aggregate_id": eid,
        "payload": payload,
    })
    .to_string()
}

fn append(client: &mut Client, log: &str, id: &str, fields: &[&str]) {
    let mut all = vec!["XADD", log, id];
    all.extend(fields);
    client.call(&all);
}

fn wait_until_counted(api: &Api, eid: u64, metric: &str, count: u64) {
    wait_until("it is counted", || api.counts(eid)[metric] == count);
}

/// The consumer meets the foreign IDs first.
fn foreign_entries_count_or_become_dead_letters(store: TestStore) {
    set_schema(&store.server, CONFIG);
    let (consumer, server) = (start(&store, "consume"), start(&store, "serve"));
    let api = server.api();
    let log = store.log(0);
    let mut client = store.server.client();
    for (round, id) in (1..).zip(IDS) {
        append(
            &mut client,
            &log,
            id,
            &["o", &envelope(&format!("e{round}"), 1)],
        );
        wait_until_counted(&api, 1, "read", round);
    }
    append(&mut client, &log, "1-1", &["e", &read(2)]);
    append(&mut client, &log, "1-2", &["e", "{"]);
    append(&mut client, &log, "1-3", &["e", &read(2), "more", "words"]);
    append(&mut client, &log, "1-4", &["note", "to self"]);
    append(&mut client, &log, "1-5", &["e", &read(2)]);
    wait_until_counted(&api, 2, "read", 2);
    drop(consumer);
    wait_until_drained(&store.server, 1);
    let mut reasons = dead_reasons(&store.server, CONFIG);
    reasons.sort();
    assert_eq!(reasons.len(), 3, "{reasons:?}");
    assert!(reasons[2].contains("malformed"), "{reasons:?}");
    let other = "an entry with other fields than e, g, o, d, a, b, c or j";
    assert_eq!(reasons[..2], [other, other]);
    let last = client.ok(&format!("XREVRANGE {log} + - COUNT 1"));
    assert!(reply::format(&last).contains("\"0-"), "{last:?}");
}

/// countd meets the foreign IDs first, in each of its appends.
fn appends_after_foreign_ids_are_retried_after_renumbering(store: TestStore) {
    set_schema(&store.server, CONFIG);
    let server = start(&store, "serve");
    let api = server.api();
    let log = store.log(0);
    let mut client = store.server.client();
    let mut append_foreign = |n: u64| {
        let id = IDS[n as usize % IDS.len()];
        append(&mut client, &log, id, &["e", &read(100)]);
    };
    let keyed = with(on_note(1, 42), json!({ "idempotencyKey": "k" }));
    append_foreign(0);
    assert_eq!(api.act("like", on_note(1, 42))["count"], 1);
    append_foreign(1);
    assert_eq!(api.act("unlike", on_note(1, 42))["count"], 0);
    append_foreign(2);
    assert_eq!(api.act("read", keyed.clone())["changed"], true);
    append_foreign(3);
    let length = || store.server.client().run(&format!("XLEN {log}"));
    let before = length();
    assert_eq!(api.act("read", keyed)["changed"], true);
    assert_eq!(length(), before, "nothing is appended");
    assert_eq!(api.act("read", on_note(1, 42))["changed"], true);
    append_foreign(4);
    let lines: Vec<String> = (0..100)
        .map(|i| {
            let metric = ["read", "like", "comment"][i % 3];
            with(on_note(1, i as u64), json!({ "metric": metric })).to_string()
        })
        .collect();
    let sent = api.try_post("/actions", &lines.join("\n"));
    let (status, results) = sent.expect("a response");
    assert_eq!(status, 200);
    assert!(!results.contains("error"), "{results}");
    append_foreign(5);
    let envelopes: Vec<String> = (0..3).map(|i| envelope(&format!("e{i}"), 1)).collect();
    let body = format!("[{}]", envelopes.join(","));
    let (status, response) = api.try_post("/events", &body).expect("a response");
    assert_eq!(status, 200, "{response}");
    append_foreign(6);
    append(
        &mut client,
        &store.dead(0),
        "*",
        &[
            "reason",
            "none",
            "kind",
            "e",
            "payload",
            &read(1),
            "partition",
            "0",
            "offset",
            "1",
        ],
    );
    let retried = printed(&run(&store.server, CONFIG, &["dead", "retry", "--all"]));
    assert_eq!(retried, "1 retried, 0 left\n");
    let _consumer = start(&store, "consume");
    wait_until_counted(&api, 100, "read", 7);
    wait_until_drained(&store.server, 1);
    let counts = api.counts(1);
    assert_eq!(
        (&counts["read"], &counts["like"], &counts["comment"]),
        (&json!(1 + 1 + 34 + 3 + 1), &json!(33), &json!(33))
    );
    assert_eq!(dead_reasons(&store.server, CONFIG), Vec::<String>::new());
}

/// More foreign entries than one script call renumbers, after more regular entries than one script call copies, while all processes
/// are killed.
fn many_foreign_entries_count_once_through_crashes(mut store: TestStore) {
    const OWN: u64 = 2_500;
    const FOREIGN: u64 = 3_500;
    set_schema(&store.server, CONFIG);
    let log = store.log(0);
    let entry = |id: &str, field: [&str; 2]| {
        let all = ["XADD", &log, id, field[0], field[1]];
        all.map(str::to_owned).to_vec()
    };
    let mut entries = Vec::new();
    for i in 0..OWN {
        entries.push(entry("0-*", ["e", &read(i % 10)]));
    }
    for i in 0..FOREIGN {
        let envelope = envelope(&format!("e{i}"), i % 10);
        entries.push(match i % 2 {
            0 => entry("*", ["e", &read(i % 10)]),
            _ => entry("*", ["o", &envelope]),
        });
    }
    store.server.client().pipeline(&entries);
    let mut consumers = [start(&store, "consume"), start(&store, "consume")];
    for round in 0..6 {
        std::thread::sleep(std::time::Duration::from_millis(40));
        match round % 3 {
            consumer @ (0 | 1) => {
                consumers[consumer].kill();
                consumers[consumer].launch();
            }
            _ => store.restart(),
        }
    }
    let server = start(&store, "serve");
    for eid in 0..10 {
        wait_until_counted(&server.api(), eid, "read", (OWN + FOREIGN) / 10);
    }
    assert_invariants(&store.server, CONFIG);
    assert_eq!(dead_reasons(&store.server, CONFIG), Vec::<String>::new());
}

/// Runs the renumbering script once, like a process that crashes afterwards. Returns the number of entries, and whether there are more.
fn renumber_once(store: &TestStore, room: u64) -> Vec<i64> {
    let script =
        countd::redis::script::LoadedScript::writing(include_str!("../src/lua/log_renumber.lua"))
            .source;
    let log = store.log(0);
    let (new, room) = (format!("{log}:new"), room.to_string());
    let position = store.positions(0);
    let call = ["EVAL", &script, "3", &log, &new, &position, "0", &room];
    let reply = store.server.client().call(&call);
    let numbers = reply::array(reply).into_iter().map(reply::int);
    numbers.collect()
}

fn ids(client: &mut Client, log: &str) -> String {
    reply::format(&client.call(&["XRANGE", log, "-", "+"]))
}

/// The script that copies the last entry also replaces the log.
fn no_entry_is_missing_between_renumbering_steps(store: TestStore) {
    set_schema(&store.server, CONFIG);
    let log = store.log(0);
    let mut client = store.server.client();
    for _ in 0..3 {
        append(&mut client, &log, "*", &["e", &read(1)]);
    }
    assert_eq!(renumber_once(&store, 3), [3, 0]);
    let entries = ids(&mut client, &log);
    assert!(entries.contains("\"0-3\""), "{entries}");
    let (_consumer, server) = (start(&store, "consume"), start(&store, "serve"));
    wait_until_counted(&server.api(), 1, "read", 3);
}

/// The consumer commits and trims entries between two steps.
fn entries_committed_between_renumbering_steps_are_not_copied(store: TestStore) {
    let log = store.log(0);
    let mut client = store.server.client();
    for _ in 0..3 {
        append(&mut client, &log, "0-*", &["e", &read(1)]);
    }
    append(&mut client, &log, "*", &["e", &read(2)]);
    append(&mut client, &log, "*", &["e", &read(2)]);
    assert_eq!(
        renumber_once(&store, 2),
        [0, 1],
        "two of its own are copied"
    );
    client.call(&["HSET", &store.positions(0), "0", "4"]);
    client.call(&["XTRIM", &log, "MINID", "0-4"]);
    assert_eq!(renumber_once(&store, 10), [2, 0]);
    let entries = ids(&mut client, &log);
    assert!(!entries.contains("\"0-3\""), "{entries}");
    assert!(
        entries.contains("\"0-4\"") && entries.contains("\"0-5\""),
        "{entries}"
    );
}

/// When a log rejects a batch of actions, all of them are retried in order, including those that changed nothing.
fn a_batch_keeps_its_order_after_a_foreign_id(store: TestStore) {
    set_schema(&store.server, CONFIG);
    let server = start(&store, "serve");
    let (api, log) = (server.api(), store.log(0));
    let mut client = store.server.client();
    let line = |op: &str| with(on_note(3, 7), json!({ "metric": "like", "op": op })).to_string();
    for (ops, left) in [(["add", "remove"], false), (["remove", "add"], true)] {
        append(&mut client, &log, "*", &["e", &read(100)]);
        let sent = api.try_post("/actions", &ops.map(line).join("\n"));
        let (status, results) = sent.expect("a response");
        assert_eq!(status, 200, "{results}");
        assert!(!results.contains("error"), "{results}");
        let again = api.act("like", on_note(3, 7));
        assert_eq!(again["changed"], !left, "{ops:?}: {results}");
        assert_eq!(again["count"], 1);
    }
}

for_each_store!([module plain cluster]
    no_entry_is_missing_between_renumbering_steps
    entries_committed_between_renumbering_steps_are_not_copied
    a_batch_keeps_its_order_after_a_foreign_id
    foreign_entries_count_or_become_dead_letters
    appends_after_foreign_ids_are_retried_after_renumbering
    many_foreign_entries_count_once_through_crashes
);
