//! What others append to a log: in whatever form and under whatever id, it counts or dies, and holds nothing up.

use crate::support::worlds::{World, on_each};
use crate::support::{
    Api, Countd, Settings, dead_reasons, on_note, printed, run, set_schema, wait_until_drained,
    with,
};
use countint_tests::{Client, reply, wait_until};
use serde_json::json;

const CONFIG: &str =
    "[log]\npartitions = 1\nretain = 10\n[consumer]\nlinger_ms = 5\ndead_after_ms = 500\n";

/// Ids that are none of the log's own: they end it.
const IDS: [&str; 4] = [
    "1700000000000-0",
    "*",
    "0-18446744073709551615",
    "18446744073709551615-18446744073709551615",
];

fn start(world: &World, command: &'static str) -> Countd {
    let config = CONFIG;
    Countd::with(&world.server, &Settings { command, config })
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

fn append(client: &mut Client, log: &str, id: &str, words: &[&str]) {
    let mut all = vec!["XADD", log, id];
    all.extend(words);
    client.call(&all);
}

fn counted(api: &Api, eid: u64, metric: &str, count: u64) {
    wait_until("it is counted", || api.counts(eid)[metric] == count);
}

/// Whoever meets such an entry first: the one who counts, or the one who appends.
fn entries_of_others_count_or_die(world: World) {
    set_schema(&world.server, CONFIG);
    let (counter, server) = (start(&world, "consume"), start(&world, "serve"));
    let api = server.api();
    let log = world.log(0);
    let mut client = world.server.client();
    for (round, id) in (1..).zip(IDS) {
        append(
            &mut client,
            &log,
            id,
            &["o", &envelope(&format!("e{round}"), 1)],
        );
        counted(&api, 1, "read", round);
    }
    append(&mut client, &log, "1-1", &["e", &read(2)]);
    append(&mut client, &log, "1-2", &["e", "{"]);
    append(&mut client, &log, "1-3", &["e", &read(2), "more", "words"]);
    append(&mut client, &log, "1-4", &["note", "to self"]);
    append(&mut client, &log, "1-5", &["e", &read(2)]);
    counted(&api, 2, "read", 2);
    drop(counter);
    wait_until_drained(&world.server, 1);
    let mut reasons = dead_reasons(&world.server, CONFIG);
    reasons.sort();
    assert_eq!(reasons.len(), 3, "{reasons:?}");
    assert!(reasons[2].contains("malformed"), "{reasons:?}");
    let other = "an entry with other fields than e, o or d";
    assert_eq!(reasons[..2], [other, other]);
    let last = client.ok(&format!("XREVRANGE {log} + - COUNT 1"));
    assert!(reply::format(&last).contains("\"0-"), "{last:?}");
}

/// Every way in which countd itself appends.
fn appending_goes_on_behind_entries_of_others(world: World) {
    set_schema(&world.server, CONFIG);
    let server = start(&world, "serve");
    let api = server.api();
    let log = world.log(0);
    let mut client = world.server.client();
    let mut close = |n: u64| {
        let id = IDS[n as usize % IDS.len()];
        append(&mut client, &log, id, &["e", &read(100)]);
    };
    let keyed = with(on_note(1, 42), json!({ "idempotencyKey": "k" }));
    close(0);
    assert_eq!(api.act("like", on_note(1, 42))["count"], 1);
    close(1);
    assert_eq!(api.act("unlike", on_note(1, 42))["count"], 0);
    close(2);
    assert_eq!(api.act("read", keyed.clone())["changed"], true);
    close(3);
    assert_eq!(
        api.act("read", keyed)["changed"],
        false,
        "nothing is appended"
    );
    assert_eq!(api.act("read", on_note(1, 42))["changed"], true);
    close(4);
    let lines: Vec<String> = (0..100)
        .map(|i| {
            let metric = ["read", "like", "comment"][i % 3];
            with(on_note(1, i as u64), json!({ "metric": metric })).to_string()
        })
        .collect();
    let sent = api.try_post("/actions", &lines.join("\n"));
    let (status, results) = sent.expect("an answer");
    assert_eq!(status, 200);
    assert!(!results.contains("error"), "{results}");
    close(5);
    let envelopes: Vec<String> = (0..3).map(|i| envelope(&format!("e{i}"), 1)).collect();
    let body = format!("[{}]", envelopes.join(","));
    let (status, answer) = api.try_post("/events", &body).expect("an answer");
    assert_eq!(status, 200, "{answer}");
    close(6);
    append(
        &mut client,
        &world.dead(0),
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
    let retried = printed(&run(&world.server, CONFIG, &["dead", "retry", "--all"]));
    assert_eq!(retried, "1 retried, 0 left\n");
    let _counter = start(&world, "consume");
    counted(&api, 100, "read", 7);
    wait_until_drained(&world.server, 1);
    let counts = api.counts(1);
    assert_eq!(
        (&counts["read"], &counts["like"], &counts["comment"]),
        (&json!(1 + 1 + 34 + 3 + 1), &json!(33), &json!(33))
    );
    assert_eq!(dead_reasons(&world.server, CONFIG), Vec::<String>::new());
}

/// More of them than a step renumbers, behind more of countd's own than it copies, and everybody is killed now and then.
fn many_entries_of_others_count_once_through_crashes(mut world: World) {
    const OWN: u64 = 2_500;
    const OTHERS: u64 = 3_500;
    set_schema(&world.server, CONFIG);
    let log = world.log(0);
    let entry = |id: &str, words: [&str; 2]| {
        let all = ["XADD", &log, id, words[0], words[1]];
        all.map(str::to_owned).to_vec()
    };
    let mut entries = Vec::new();
    for i in 0..OWN {
        entries.push(entry("0-*", ["e", &read(i % 10)]));
    }
    for i in 0..OTHERS {
        let envelope = envelope(&format!("e{i}"), i % 10);
        entries.push(match i % 2 {
            0 => entry("*", ["e", &read(i % 10)]),
            _ => entry("*", ["o", &envelope]),
        });
    }
    world.server.client().pipeline(&entries);
    let mut counters = [start(&world, "consume"), start(&world, "consume")];
    for round in 0..6 {
        std::thread::sleep(std::time::Duration::from_millis(40));
        match round % 3 {
            counter @ (0 | 1) => {
                counters[counter].kill();
                counters[counter].launch();
            }
            _ => world.restart(),
        }
    }
    let server = start(&world, "serve");
    for eid in 0..10 {
        counted(&server.api(), eid, "read", (OWN + OTHERS) / 10);
    }
    wait_until_drained(&world.server, 1);
    assert_eq!(dead_reasons(&world.server, CONFIG), Vec::<String>::new());
}

/// One step of renumbering, as if whoever asked for it died then. Returns how many, and whether there are more.
fn renumber_once(world: &World, room: u64) -> Vec<i64> {
    let script =
        countd::redis::script::LoadedScript::writing(include_str!("../src/lua/log_renumber.lua"))
            .source;
    let log = world.log(0);
    let (new, room) = (format!("{log}:new"), room.to_string());
    let position = world.positions(0);
    let call = ["EVAL", &script, "3", &log, &new, &position, "0", &room];
    let told = world.server.client().call(&call);
    let told = reply::array(told).into_iter().map(reply::int);
    told.collect()
}

fn ids(client: &mut Client, log: &str) -> String {
    reply::format(&client.call(&["XRANGE", log, "-", "+"]))
}

/// A step that leaves nothing to be copied is the last one: what is copied is in sight then.
fn no_entry_is_out_of_sight_between_steps(world: World) {
    set_schema(&world.server, CONFIG);
    let log = world.log(0);
    let mut client = world.server.client();
    for _ in 0..3 {
        append(&mut client, &log, "*", &["e", &read(1)]);
    }
    assert_eq!(renumber_once(&world, 3), [3, 0]);
    let entries = ids(&mut client, &log);
    assert!(entries.contains("\"0-3\""), "{entries}");
    let (_counter, server) = (start(&world, "consume"), start(&world, "serve"));
    counted(&server.api(), 1, "read", 3);
}

/// The log goes on being counted, and what is counted trimmed, between two steps.
fn what_is_counted_between_steps_is_not_copied_behind(world: World) {
    let log = world.log(0);
    let mut client = world.server.client();
    for _ in 0..3 {
        append(&mut client, &log, "0-*", &["e", &read(1)]);
    }
    append(&mut client, &log, "*", &["e", &read(2)]);
    append(&mut client, &log, "*", &["e", &read(2)]);
    assert_eq!(
        renumber_once(&world, 2),
        [0, 1],
        "two of its own are copied"
    );
    client.call(&["HSET", &world.positions(0), "0", "4"]);
    client.call(&["XTRIM", &log, "MINID", "0-4"]);
    assert_eq!(renumber_once(&world, 10), [2, 0]);
    let entries = ids(&mut client, &log);
    assert!(!entries.contains("\"0-3\""), "{entries}");
    assert!(
        entries.contains("\"0-4\"") && entries.contains("\"0-5\""),
        "{entries}"
    );
}

/// Of actions that meet a closed log those are done again that changed nothing, too.
fn a_request_keeps_its_order_on_a_closed_log(world: World) {
    set_schema(&world.server, CONFIG);
    let server = start(&world, "serve");
    let (api, log) = (server.api(), world.log(0));
    let mut client = world.server.client();
    let line = |op: &str| with(on_note(3, 7), json!({ "metric": "like", "op": op })).to_string();
    for (ops, left) in [(["add", "remove"], false), (["remove", "add"], true)] {
        append(&mut client, &log, "*", &["e", &read(100)]);
        let sent = api.try_post("/actions", &ops.map(line).join("\n"));
        let (status, results) = sent.expect("an answer");
        assert_eq!(status, 200, "{results}");
        assert!(!results.contains("error"), "{results}");
        let again = api.act("like", on_note(3, 7));
        assert_eq!(again["changed"], !left, "{ops:?}: {results}");
        assert_eq!(again["count"], 1);
    }
}

on_each!([module plain cluster]
    no_entry_is_out_of_sight_between_steps
    what_is_counted_between_steps_is_not_copied_behind
    a_request_keeps_its_order_on_a_closed_log
    entries_of_others_count_or_die
    appending_goes_on_behind_entries_of_others
    many_entries_of_others_count_once_through_crashes
);
