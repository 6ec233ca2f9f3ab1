//! Poison messages become dead letters and delay no other events. Retried after a repair, they count once.

use crate::support::stores::TestStore;
use crate::support::{
    Countd, Settings, dead_reasons, on_note, printed, run, set_schema, wait_until_drained,
};
use countd::domain::event::Event;
use countd::domain::keys::{Keys, PartitionHash};
use countint_tests::{Client, Server, reply};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// The number of partitions.
pub const PARTITIONS: u16 = 8;
const CONFIG: &str = "[log]\npartitions = 8\n[consumer]\nlinger_ms = 5\n";
const VALID: u64 = 100_000;
const POISON: u64 = 1_000;
const NOTES: u64 = 100;

/// A read of a note, with other fields.
pub fn read(eid: u64, more: Json) -> Json {
    let mut event = on_note(eid, 9);
    event["metric"] = json!("read");
    event["delta"] = json!(1);
    for (name, value) in more.as_object().expect("an object") {
        event[name] = value.clone();
    }
    event
}

/// The log of a payload's partition; any log if the payload has no entity.
fn log(payload: &[u8]) -> String {
    let keys = Keys::new(PARTITIONS, false, PartitionHash::Murmur2);
    let event = serde_json::from_slice::<Event>(payload);
    keys.log(event.map_or(3, |event| keys.of_entity(&event.entity)))
}

/// The command that appends an entry with one field to a log.
fn entry(log: &str, field: &str, payload: impl Into<Vec<u8>>) -> Vec<Vec<u8>> {
    let args = ["XADD", log, "0-*", field].map(|word| word.as_bytes().to_vec());
    let mut args = args.to_vec();
    args.push(payload.into());
    args
}

/// The command that appends an event to its log.
pub fn append(payload: impl Into<Vec<u8>>) -> Vec<Vec<u8>> {
    let payload = payload.into();
    entry(&log(&payload), "e", payload)
}

/// The number of kinds of poison messages.
const KINDS: u64 = 20;

/// A poison message of a kind, and a part of the reason of its dead letter.
fn poison_message(kind: u64) -> (Vec<Vec<u8>>, &'static str) {
    let poison = |more: Json, reason| (append(read(1, more).to_string()), reason);
    let without = |field: &str| {
        let mut event = read(1, json!({}));
        event.as_object_mut().expect("an object").remove(field);
        (append(event.to_string()), "malformed")
    };
    let malformed = |payload: &str| (append(payload), "malformed");
    match kind {
        0 => malformed("{\"etype\":\"note\",\"eid\":1"),
        1 => malformed(""),
        2 => malformed("[\"no\",\"event\"]"),
        3 => malformed(&"[".repeat(10_000)),
        4 => (append(b"{\"etype\":\"\xff\xfe\"}".to_vec()), "malformed"),
        5 => without("uid"),
        6 => without("delta"),
        7 => poison(json!({ "delta": "many" }), "malformed"),
        8 => poison(json!({ "delta": 1.5 }), "malformed"),
        9 => poison(json!({ "uid": "no id" }), "malformed"),
        10 => (entry("x:cnt-update:2", "o", "{}"), "malformed"),
        11 => (
            entry("x:cnt-update:2", "d", "{\"adds\":[[1]]}"),
            "malformed",
        ),
        12 => poison(
            json!({ "metric": "later" }),
            "schema v1 has no metric later",
        ),
        13 => poison(json!({ "schema": "v9" }), "there is no schema v9"),
        14 => poison(json!({ "etype": "cat" }), "there is no type of entity cat"),
        15 => poison(json!({ "delta": 1_u64 << 40 }), "delta is out of range"),
        16 => poison(
            json!({ "eid": "poison" }),
            "cnt:v1:note:poison holds another type",
        ),
        17 => poison(
            json!({ "metric": "publish", "uid": "bad" }),
            "ucnt:bad holds another type",
        ),
        18 => {
            let payload = read(1, json!({})).to_string();
            let mut logs = (0..PARTITIONS).map(|p| format!("x:cnt-update:{p}"));
            let other = logs.find(|other| *other != log(payload.as_bytes()));
            let other = other.expect("there are several");
            (entry(&other, "e", payload), "it belongs to partition")
        }
        _ => (entry("x:cnt-update:5", "other", "field"), "other fields"),
    }
}

/// The kinds that cannot be repaired: they become dead letters again when they are retried. The last kind is not retried.
const NOT_REPAIRABLE: [u64; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 15, 18, 19];
/// The number of messages of each kind.
const EACH: u64 = POISON / KINDS;

/// The expected number of dead letters by reason for these kinds.
fn reasons(kinds: impl IntoIterator<Item = u64>) -> BTreeMap<&'static str, u64> {
    let mut reasons = BTreeMap::new();
    for kind in kinds {
        *reasons.entry(poison_message(kind).1).or_default() += EACH;
    }
    reasons
}

/// The number of dead letters by reason, as in [`poison_message`].
fn dead_letters_by_reason(server: &Server) -> BTreeMap<&'static str, u64> {
    let mut reasons = BTreeMap::new();
    for reason in dead_reasons(server, CONFIG) {
        let known = (0..KINDS).map(|kind| poison_message(kind).1);
        let known = known.into_iter().find(|part| reason.contains(part));
        let known = known.unwrap_or_else(|| panic!("unexpected reason: {reason}"));
        *reasons.entry(known).or_default() += 1;
    }
    reasons
}

fn append_all(client: &mut Client) {
    client.ok("SET cnt:v1:note:poison text");
    client.ok("SET ucnt:bad text");
    let mut entries = Vec::new();
    for i in 0..VALID {
        let metric = if i % 2 == 0 { "comment" } else { "view" };
        entries.push(append(
            read(i % NOTES, json!({ "metric": metric })).to_string(),
        ));
        if i % (VALID / POISON) == 7 {
            entries.push(poison_message(i / (VALID / POISON) % KINDS).0);
        }
    }
    for reply in client.pipeline(&entries) {
        assert!(!reply::format(&reply).contains("error"), "{reply:?}");
    }
}

#[test]
fn poison_messages_delay_no_other_events_and_count_once_when_retried() {
    let server = Server::start();
    set_schema(&server, CONFIG);
    let mut client = server.client();
    append_all(&mut client);
    let countd = Countd::with(
        &server,
        &Settings {
            command: "all",
            config: CONFIG,
        },
    );
    wait_until_drained(&server, PARTITIONS);
    let api = countd.api();
    let assert_valid_counted = || {
        for note in 0..NOTES {
            let mut expected = json!({ "read": 0, "like": 0, "fav": 0, "comment": 0, "repost": 0 });
            let metric = if note % 2 == 0 { "comment" } else { "read" };
            expected[metric] = json!(VALID / NOTES);
            let mut counts = api.counts(note);
            counts.as_object_mut().expect("counters").remove("later");
            assert_eq!(counts, expected, "note {note}");
        }
    };
    assert_valid_counted();
    assert_eq!(dead_letters_by_reason(&server), reasons(0..KINDS));

    // Some of the causes are repaired.
    client.ok("DEL cnt:v1:note:poison ucnt:bad");
    printed(&run(&server, CONFIG, &["schema", "extend", "v1", "later"]));
    printed(&run(&server, CONFIG, &["schema", "set", "v9", "read"]));
    // Retried twice: repaired events count once.
    for retried in [POISON - EACH, NOT_REPAIRABLE.len() as u64 * EACH - EACH] {
        let output = printed(&run(&server, CONFIG, &["dead", "retry", "--all"]));
        assert_eq!(output, format!("{retried} retried, {EACH} left\n"));
        wait_until_drained(&server, PARTITIONS);
        assert_eq!(dead_letters_by_reason(&server), reasons(NOT_REPAIRABLE));
        let later = api.ok(api.get("/counter/note/1?metrics=later"));
        assert_eq!(later["counts"], json!({ "later": EACH }));
        let repaired = api.ok(api.get("/counter/note/poison"));
        assert_eq!(repaired["counts"]["read"], json!(EACH));
        assert_valid_counted();
        let table = format!("tab:v9:note:{}", TestStore::partition("note:1", PARTITIONS));
        let counter = format!("CTAB.GET {table} 1 0");
        client.expect(&counter, &format!("(integer) {EACH}"));
        client.expect("CINT.GET ucnt:bad 2", &format!("(integer) {EACH}"));
    }

    let one = printed(&run(&server, CONFIG, &["dead", "list"]));
    let one: Json = serde_json::from_str(one.lines().next().expect("a letter")).expect("JSON");
    let id = one["id"].as_str().expect("an id");
    assert_eq!(
        printed(&run(&server, CONFIG, &["dead", "drop", id])),
        "1 dropped, 0 left\n"
    );
    assert!(
        !run(&server, CONFIG, &["dead", "drop", id]).status.success(),
        "it was dropped"
    );
    printed(&run(&server, CONFIG, &["dead", "drop", "--all"]));
    assert_eq!(dead_letters_by_reason(&server), BTreeMap::new());
}

/// More objects than the maximum of a commit, and an unusable key: excluded entries are read again. Two consumers start at the same
/// time and conflict.
#[test]
fn a_large_backlog_counts_once() {
    const NOTES: u64 = 12_000;
    const EACH: u64 = 4;
    let server = Server::start();
    set_schema(&server, CONFIG);
    let mut client = server.client();
    client.ok("SET cnt:v1:note:poison text");
    let mut entries = Vec::new();
    for i in 0..NOTES * EACH {
        entries.push(append(read(i % NOTES, json!({})).to_string()));
        if i == NOTES / 2 {
            entries.push(append(read(1, json!({ "eid": "poison" })).to_string()));
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
        let response = api.ok(api.post("/counter/batch", &body));
        let found = response["items"].as_array().expect("an array");
        assert_eq!(found.len(), 500);
        for item in found {
            assert_eq!(item["counts"]["read"], json!(EACH), "{item}");
        }
    }
    let dead = printed(&run(&server, CONFIG, &["dead", "list"]));
    assert_eq!(dead.lines().count(), 1, "{dead}");
}
