//! Poison messages become dead letters and delay no other events. Retried after a repair, they count once.

use crate::support::stores::{TestStore, cluster, for_each_store};
use crate::support::{
    Countd, Settings, dead_reasons, on_note, printed, run, set_schema, wait_until_drained,
};
use countd::domain::event::Event;
use countd::domain::keys::{Keys, PartitionHash};
use countint_tests::reply;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// The number of partitions.
pub const PARTITIONS: u16 = 8;
const CONFIG: &str = "[log]\npartitions = 8\n[consumer]\nlinger_ms = 5\n";
/// The number of valid events for each poison message.
const VALID: u64 = 100;
const NOTES: u64 = 100;

for_each_store! {
    [module cluster]
    poison_messages_delay_no_other_events_and_count_once_when_retried
    a_large_backlog_counts_once
}

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
fn log(store: &TestStore, payload: &[u8]) -> String {
    let keys = Keys::new(PARTITIONS, store.is_cluster(), PartitionHash::Murmur2);
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
pub fn append(store: &TestStore, payload: impl Into<Vec<u8>>) -> Vec<Vec<u8>> {
    let payload = payload.into();
    entry(&log(store, &payload), "e", payload)
}

/// The number of kinds of poison messages.
const KINDS: u64 = 20;

/// The counters of an entity whose events become dead letters.
fn counters(store: &TestStore) -> String {
    store.counters("v1", "note:poison", PARTITIONS)
}

/// Those of a user.
fn user_counters(store: &TestStore) -> String {
    store.user_counters("bad", PARTITIONS)
}

/// A poison message of a kind, and a part of the reason of its dead letter.
fn poison_message(store: &TestStore, kind: u64) -> (Vec<Vec<u8>>, String) {
    let append = |payload: &[u8]| append(store, payload);
    let poison = |more: Json, reason: &str| {
        let payload = read(1, more).to_string();
        (append(payload.as_bytes()), reason.to_owned())
    };
    let malformed = |payload: &[u8]| (append(payload), "malformed".to_owned());
    let without = |field: &str| {
        let mut event = read(1, json!({}));
        event.as_object_mut().expect("an object").remove(field);
        malformed(event.to_string().as_bytes())
    };
    match kind {
        0 => malformed(b"{\"etype\":\"note\",\"eid\":1"),
        1 => malformed(b""),
        2 => malformed(b"[\"no\",\"event\"]"),
        3 => malformed("[".repeat(10_000).as_bytes()),
        4 => malformed(b"{\"etype\":\"\xff\xfe\"}"),
        5 => without("uid"),
        6 => without("delta"),
        7 => poison(json!({ "delta": "many" }), "malformed"),
        8 => poison(json!({ "delta": 1.5 }), "malformed"),
        9 => poison(json!({ "uid": "no id" }), "malformed"),
        10 => (entry(&store.log(2), "o", "{}"), "malformed".to_owned()),
        11 => (
            entry(&store.log(2), "d", "{\"adds\":[[1]]}"),
            "malformed".to_owned(),
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
            &format!("{} holds another type", counters(store)),
        ),
        17 => poison(
            json!({ "metric": "publish", "uid": "bad" }),
            &format!("{} holds another type", user_counters(store)),
        ),
        18 => {
            let payload = read(1, json!({})).to_string();
            let mut logs = (0..PARTITIONS).map(|p| store.log(p));
            let other = logs.find(|other| *other != log(store, payload.as_bytes()));
            let other = other.expect("there are several");
            let reason = "it belongs to partition".to_owned();
            (entry(&other, "e", payload), reason)
        }
        _ => (
            entry(&store.log(5), "other", "field"),
            "other fields".to_owned(),
        ),
    }
}

/// The kinds that cannot be repaired: they become dead letters again when they are retried. The last kind is not retried.
const NOT_REPAIRABLE: [u64; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 15, 18, 19];

/// The expected number of dead letters by reason for these kinds, with `each` of a kind.
fn reasons(
    store: &TestStore,
    kinds: impl IntoIterator<Item = u64>,
    each: u64,
) -> BTreeMap<String, u64> {
    let mut reasons = BTreeMap::new();
    for kind in kinds {
        *reasons.entry(poison_message(store, kind).1).or_default() += each;
    }
    reasons
}

/// The number of dead letters by reason, as in [`poison_message`].
fn dead_letters_by_reason(store: &TestStore) -> BTreeMap<String, u64> {
    let known = (0..KINDS).map(|kind| poison_message(store, kind).1);
    let known: Vec<String> = known.collect();
    let mut reasons = BTreeMap::new();
    for reason in dead_reasons(&store.server, CONFIG) {
        let known = known.iter().find(|part| reason.contains(*part));
        let known = known.unwrap_or_else(|| panic!("unexpected reason: {reason}"));
        *reasons.entry(known.clone()).or_default() += 1;
    }
    reasons
}

/// Asserts that there are `each` dead letters of each of these kinds. Returns their number.
#[track_caller]
fn assert_dead_letters(store: &TestStore, kinds: impl IntoIterator<Item = u64>, each: u64) -> u64 {
    let mut found = dead_letters_by_reason(store);
    let number = found.values().sum();
    // In a cluster, one entry is forwarded with what a batch of events adds to the counters of a user.
    let of_user = format!("{} holds", user_counters(store));
    let mut batches = found
        .iter_mut()
        .filter(|(reason, _)| reason.starts_with(&of_user));
    if let Some((_, batches)) = batches.next().filter(|_| store.is_cluster()) {
        assert!((1..=each).contains(&*batches), "{batches}");
        *batches = each;
    }
    assert_eq!(found, reasons(store, kinds, each));
    number
}

/// Appends `each` poison messages of each kind between valid events. Returns the number of the latter.
fn append_all(store: &TestStore, each: u64) -> u64 {
    let mut client = store.server.client();
    for key in [counters(store), user_counters(store)] {
        client.ok(&format!("SET {key} text"));
    }
    let valid = each * KINDS * VALID;
    let mut entries = Vec::new();
    for i in 0..valid {
        let metric = if i % 2 == 0 { "comment" } else { "view" };
        let valid = read(i % NOTES, json!({ "metric": metric }));
        entries.push(append(store, valid.to_string()));
        if i % VALID == 7 {
            entries.push(poison_message(store, i / VALID % KINDS).0);
        }
    }
    for reply in client.pipeline(&entries) {
        assert!(!reply::format(&reply).contains("error"), "{reply:?}");
    }
    valid
}

fn poison_messages_delay_no_other_events_and_count_once_when_retried(store: TestStore) {
    let server = &store.server;
    let each = store.full_or(50, 10);
    set_schema(server, CONFIG);
    let mut client = server.client();
    let valid = append_all(&store, each);
    let (command, config) = ("all", CONFIG);
    let countd = Countd::with(server, &Settings { command, config });
    wait_until_drained(server, PARTITIONS);
    let api = countd.api();
    let assert_valid_counted = || {
        for note in 0..NOTES {
            let mut expected = json!({ "read": 0, "like": 0, "fav": 0, "comment": 0, "repost": 0 });
            let metric = if note % 2 == 0 { "comment" } else { "read" };
            expected[metric] = json!(valid / NOTES);
            let mut counts = api.counts(note);
            counts.as_object_mut().expect("counters").remove("later");
            assert_eq!(counts, expected, "note {note}");
        }
    };
    assert_valid_counted();
    let mut dead = assert_dead_letters(&store, 0..KINDS, each);

    // Some of the causes are repaired.
    for key in [counters(&store), user_counters(&store)] {
        client.ok(&format!("DEL {key}"));
    }
    printed(&run(server, CONFIG, &["schema", "extend", "v1", "later"]));
    printed(&run(server, CONFIG, &["schema", "set", "v9", "read"]));
    // Retried twice: repaired events count once.
    for _ in 0..2 {
        let output = printed(&run(server, CONFIG, &["dead", "retry", "--all"]));
        assert_eq!(output, format!("{} retried, {each} left\n", dead - each));
        wait_until_drained(server, PARTITIONS);
        dead = assert_dead_letters(&store, NOT_REPAIRABLE, each);
        let later = api.ok(api.get("/counter/note/1?metrics=later"));
        assert_eq!(later["counts"], json!({ "later": each }));
        let repaired = api.ok(api.get("/counter/note/poison"));
        assert_eq!(repaired["counts"]["read"], json!(each));
        assert_valid_counted();
        let expected = format!("(integer) {each}");
        let table = store.counters("v9", "note:1", PARTITIONS);
        client.expect(&format!("CTAB.GET {table} 1 0"), &expected);
        let user = user_counters(&store);
        client.expect(&format!("CINT.GET {user} 2"), &expected);
    }

    let one = printed(&run(server, CONFIG, &["dead", "list"]));
    let one: Json = serde_json::from_str(one.lines().next().expect("a letter")).expect("JSON");
    let id = one["id"].as_str().expect("an id");
    // In a cluster, another partition may have one with this ID.
    let partition = one["partition"].to_string();
    let drop_it = ["dead", "drop", id, "--partition", &partition];
    assert_eq!(
        printed(&run(server, CONFIG, &drop_it)),
        "1 dropped, 0 left\n"
    );
    let again = run(server, CONFIG, &drop_it);
    assert!(!again.status.success(), "it was dropped");
    printed(&run(server, CONFIG, &["dead", "drop", "--all"]));
    assert_eq!(dead_letters_by_reason(&store), BTreeMap::new());
}

/// An ID that dead letters of two partitions have, which are two streams in a cluster, is refused without the partition.
#[test]
fn an_id_of_two_dead_letters_needs_the_partition() {
    let store = cluster();
    let server = &store.server;
    set_schema(server, CONFIG);
    let mut client = server.client();
    for (partition, id) in [(1, "4-1"), (2, "5-1"), (3, "5-1")] {
        let stream = store.dead(partition);
        client.ok(&format!(
            "XADD {stream} {id} reason test kind e payload {{}} partition {partition} offset 1"
        ));
    }
    let refused = |options: &[&str]| {
        let refused = run(server, CONFIG, &[&["dead", "drop"], options].concat());
        assert!(!refused.status.success());
        String::from_utf8_lossy(&refused.stderr).into_owned()
    };
    let left = || {
        let list = printed(&run(server, CONFIG, &["dead", "list"]));
        list.lines().count()
    };
    let error = refused(&["4-1", "5-1"]);
    assert!(
        error.contains("5-1 is the ID of dead letters of partitions 2 and 3"),
        "{error}"
    );
    let error = refused(&["5-1", "--partition", "4"]);
    assert!(
        error.contains("1 of the IDs do not exist in partition 4"),
        "{error}"
    );
    assert_eq!(left(), 3, "nothing is dropped");
    for (partition, id, expected) in [("3", "5-1", 2), ("1", "4-1", 1), ("2", "5-1", 0)] {
        let one = ["dead", "drop", id, "--partition", partition];
        assert_eq!(printed(&run(server, CONFIG, &one)), "1 dropped, 0 left\n");
        assert_eq!(left(), expected);
    }
}

/// More objects than the maximum of a commit, and an unusable key: excluded entries are read again. Two consumers start at the same
/// time and conflict.
fn a_large_backlog_counts_once(store: TestStore) {
    const NOTES: u64 = 12_000;
    let each = store.full_or(4, 2);
    let server = &store.server;
    set_schema(server, CONFIG);
    let mut client = server.client();
    client.ok(&format!("SET {} text", counters(&store)));
    let mut entries = Vec::new();
    for i in 0..NOTES * each {
        entries.push(append(&store, read(i % NOTES, json!({})).to_string()));
        if i == NOTES / 2 {
            entries.push(append(
                &store,
                read(1, json!({ "eid": "poison" })).to_string(),
            ));
        }
    }
    client.pipeline(&entries);
    let start = |command| {
        let config = CONFIG;
        Countd::with(server, &Settings { command, config })
    };
    let (_first, _second, serve) = (start("consume"), start("consume"), start("serve"));
    wait_until_drained(server, PARTITIONS);
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
            assert_eq!(item["counts"]["read"], json!(each), "{item}");
        }
    }
    let dead = printed(&run(server, CONFIG, &["dead", "list"]));
    assert_eq!(dead.lines().count(), 1, "{dead}");
}
