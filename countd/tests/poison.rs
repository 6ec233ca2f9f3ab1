//! What cannot be counted goes to the dead letters and holds nothing up; and what is brought back counts once.

use crate::support::{Countd, Settings, on_note, printed, run, set_schema, wait_until_drained};
use countd::event::Event;
use countd::keys::Keys;
use countint_tests::{Client, Server, reply, wait_until};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

const PARTITIONS: u16 = 8;
const CONFIG: &str = "[log]\npartitions = 8\n[consumer]\nlinger_ms = 5\n";
const GOOD: u64 = 100_000;
const BAD: u64 = 1_000;
const NOTES: u64 = 100;

fn read(eid: u64, more: Json) -> Json {
    let mut event = on_note(eid, 9);
    event["metric"] = json!("read");
    event["delta"] = json!(1);
    for (name, value) in more.as_object().expect("an object") {
        event[name] = value.clone();
    }
    event
}

/// The log that a payload belongs to; any, if it says nothing.
fn log(payload: &str) -> String {
    let keys = Keys::new(PARTITIONS, false);
    let event = serde_json::from_str::<Event>(payload);
    keys.log(event.map_or(3, |event| keys.of_entity(&event.entity)))
}

fn append(payload: String) -> Vec<String> {
    let log = log(&payload);
    ["XADD", &log, "0-*", "e", &payload]
        .map(str::to_owned)
        .to_vec()
}

/// The `i`th bad entry, and a part of the reason for which it dies.
fn bad(i: u64) -> (Vec<String>, &'static str) {
    let poison = |payload: Json, reason| (append(payload.to_string()), reason);
    match i % 10 {
        0 => (
            append(format!("{{\"etype\":\"note\",\"eid\":{i}")),
            "malformed",
        ),
        1 => poison(read(1, json!({ "delta": "many" })), "malformed"),
        2 => poison(json!(["no", "event"]), "malformed"),
        3 => poison(
            read(1, json!({ "metric": "later" })),
            "schema v1 has no metric later",
        ),
        4 => poison(read(1, json!({ "schema": "v9" })), "there is no schema v9"),
        5 => poison(
            read(1, json!({ "etype": "cat" })),
            "there is no type of entity cat",
        ),
        6 => poison(
            read(1, json!({ "delta": 1_u64 << 40 })),
            "delta is out of range",
        ),
        7 => poison(
            read(1_000_001, json!({})),
            "cnt:v1:note:1000001 holds another type",
        ),
        8 => poison(
            read(
                1,
                json!({ "metric": "like", "counted": true, "author": "bad" }),
            ),
            "ucnt:bad holds another type",
        ),
        _ => {
            let words = ["XADD", "x:cnt-update:5", "0-*", "other", "field"];
            (words.map(str::to_owned).to_vec(), "other fields")
        }
    }
}

/// How many of the dead letters have each reason; the parts of reasons are those of [`bad`].
fn dead(server: &Server) -> BTreeMap<&'static str, u64> {
    let mut reasons = BTreeMap::new();
    for line in printed(&run(server, CONFIG, &["dead", "list"])).lines() {
        let letter: Json = serde_json::from_str(line).expect("JSON");
        let reason = letter["reason"].as_str().expect("a reason");
        let known = (0..10).map(|i| bad(i).1).find(|part| reason.contains(part));
        let known = known.unwrap_or_else(|| panic!("another reason: {reason}"));
        *reasons.entry(known).or_default() += 1;
    }
    reasons
}

fn fill(client: &mut Client) {
    client.ok("SET cnt:v1:note:1000001 text");
    client.ok("SET ucnt:bad text");
    let mut entries = Vec::new();
    for i in 0..GOOD {
        let metric = if i % 2 == 0 { "comment" } else { "view" };
        entries.push(append(
            read(i % NOTES, json!({ "metric": metric })).to_string(),
        ));
        if i % (GOOD / BAD) == 7 {
            entries.push(bad(i / (GOOD / BAD)).0);
        }
    }
    for reply in client.pipeline(&entries) {
        assert!(!reply::format(&reply).contains("error"), "{reply:?}");
    }
}

#[test]
fn bad_events_hold_nothing_up_and_count_once_when_mended() {
    let server = Server::start();
    set_schema(&server, CONFIG);
    let mut client = server.client();
    fill(&mut client);
    let countd = Countd::with(
        &server,
        &Settings {
            command: "all",
            config: CONFIG,
        },
    );
    wait_until_drained(&server, PARTITIONS);
    let api = countd.api();
    let good = json!(GOOD / NOTES);
    for note in 0..NOTES {
        let counts = api.counts(note);
        let metric = if note % 2 == 0 { "comment" } else { "read" };
        assert_eq!(counts[metric], good, "note {note}: {counts}");
    }
    let each = BAD / 10;
    let all: BTreeMap<_, _> = [("malformed", 3 * each)]
        .into_iter()
        .chain((3..10).map(|i| (bad(i).1, each)))
        .collect();
    assert_eq!(dead(&server), all);

    // The causes are mended; some cannot be.
    client.ok("DEL cnt:v1:note:1000001 ucnt:bad");
    printed(&run(&server, CONFIG, &["schema", "extend", "v1", "later"]));
    printed(&run(&server, CONFIG, &["schema", "set", "v9", "read"]));
    let retried = printed(&run(&server, CONFIG, &["dead", "retry", "--all"]));
    assert_eq!(retried, format!("{} retried, {each} left\n", BAD - each));
    wait_until_drained(&server, PARTITIONS);
    let left: BTreeMap<_, _> = [("malformed", 3 * each)]
        .into_iter()
        .chain([5, 6, 9].map(|i| (bad(i).1, each)))
        .collect();
    assert_eq!(dead(&server), left);
    let later = api.ok(api.get("/counter/note/1?metrics=later"));
    assert_eq!(later["counts"], json!({ "later": each }));
    assert_eq!(api.counts(1_000_001)["read"], json!(each));
    assert_eq!(
        api.counts(1)["read"],
        good,
        "what was counted is not counted again"
    );
    client.expect("CINT.GET cnt:v9:note:1 0", &format!("(integer) {each}"));
    client.expect("CINT.GET ucnt:bad 3", &format!("(integer) {each}"));

    let one = printed(&run(&server, CONFIG, &["dead", "list"]));
    let one: Json = serde_json::from_str(one.lines().next().expect("a letter")).expect("JSON");
    let id = one["id"].as_str().expect("an id");
    assert_eq!(
        printed(&run(&server, CONFIG, &["dead", "drop", id])),
        "1 dropped, 0 left\n"
    );
    assert!(
        !run(&server, CONFIG, &["dead", "drop", id]).status.success(),
        "it is gone"
    );
    printed(&run(&server, CONFIG, &["dead", "drop", "--all"]));
    assert_eq!(dead(&server), BTreeMap::new());
}

#[test]
fn a_full_or_read_only_server_delays_but_loses_nothing() {
    let server = Server::start();
    set_schema(&server, CONFIG);
    let mut client = server.client();
    let entries: Vec<_> = (0..2_000)
        .map(|i| append(read(i % 10, json!({})).to_string()))
        .collect();
    client.pipeline(&entries);
    client.ok("CONFIG SET maxmemory 1");
    let countd = Countd::with(
        &server,
        &Settings {
            command: "all",
            config: CONFIG,
        },
    );
    let api = countd.api();
    wait_until("it found the server full", || countd.log().contains("OOM"));
    let (status, answer) = api.post("/action/read", &on_note(1, 42));
    assert_eq!(
        (status, &answer["error"]["code"]),
        (503, &json!("unavailable")),
        "{answer}"
    );
    client.ok("CONFIG SET maxmemory 0");
    wait_until_drained(&server, PARTITIONS);
    let other = Server::start();
    client.ok(&format!("REPLICAOF 127.0.0.1 {}", other.port()));
    let (status, answer) = api.post("/action/read", &on_note(1, 42));
    assert_eq!(
        (status, &answer["error"]["code"]),
        (503, &json!("unavailable")),
        "{answer}"
    );
}

/// More objects than one step counts, and one in the way: whatever of a read could not be counted is read again. Two who
/// begin at the same time are in each other's way, too.
#[test]
fn a_large_backlog_is_counted_whole() {
    const NOTES: u64 = 12_000;
    const EACH: u64 = 4;
    let server = Server::start();
    set_schema(&server, CONFIG);
    let mut client = server.client();
    client.ok("SET cnt:v1:note:1000001 text");
    let mut entries = Vec::new();
    for i in 0..NOTES * EACH {
        entries.push(append(read(i % NOTES, json!({})).to_string()));
        if i == NOTES / 2 {
            entries.push(append(read(1_000_001, json!({})).to_string()));
        }
    }
    client.pipeline(&entries);
    let start = |command| {
        let config = CONFIG;
        Countd::with(&server, &Settings { command, config })
    };
    let (_first, _second, serve) = (start("consume"), start("consume"), start("serve"));
    wait_until_drained(&server, PARTITIONS);
    let api = serve.api();
    for from in (0..NOTES).step_by(500) {
        let items: Vec<Json> = (from..from + 500)
            .map(|eid| json!({ "etype": "note", "eid": eid }))
            .collect();
        let body = json!({ "items": items, "metrics": ["read"] });
        let answer = api.ok(api.post("/counter/batch", &body));
        let found = answer["items"].as_array().expect("an array");
        assert_eq!(found.len(), 500);
        for item in found {
            assert_eq!(item["counts"]["read"], json!(EACH), "{item}");
        }
    }
    let dead = printed(&run(&server, CONFIG, &["dead", "list"]));
    assert_eq!(dead.lines().count(), 1, "{dead}");
}

#[test]
fn consumers_share_the_log_and_take_over_from_the_dead() {
    let server = Server::start();
    let config = "[log]\npartitions = 8\n[consumer]\nlinger_ms = 5\ndead_after_ms = 1000\n";
    set_schema(&server, config);
    let start = |command| Countd::with(&server, &Settings { command, config });
    let (mut first, second, api) = (start("consume"), start("consume"), start("serve"));
    let has =
        |countd: &Countd, count: u64| countd.log().contains(&format!("\"partitions\":{count},"));
    let mut client = server.client();
    wait_until("both are there", || {
        client.run("ZCARD countd:consumers") == "(integer) 2"
    });
    let entries: Vec<_> = (0..5_000)
        .map(|i| append(read(i % NOTES, json!({})).to_string()))
        .collect();
    client.pipeline(&entries);
    first.kill();
    client.pipeline(&entries);
    wait_until_drained(&server, PARTITIONS);
    wait_until("the other one has everything", || has(&second, 8));
    for note in 0..NOTES {
        assert_eq!(
            api.api().counts(note)["read"],
            json!(10_000 / NOTES),
            "note {note}"
        );
    }
}
