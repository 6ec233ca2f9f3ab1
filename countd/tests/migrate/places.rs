//! Each kind of command finds the counters while they are moved, wherever they are.

use super::setup::{objects_of_numbers, wait_for_epoch};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, Countd, Settings, on_note, printed, run, wait_until_drained, with};
use countint_tests::env::TempDir;
use countint_tests::{Client, Server, reply};
use serde_json::{Value as Json, json};
use std::fs;

const PARTITIONS: u16 = 16;
/// A metric of each fact store, and of each way to count.
const CONFIG: &str = r#"
[log]
partitions = 16
retain = 1000
[consumer]
linger_ms = 5
[facts]
shards = 3
[metrics.read]
nature = "repeatable"
count = "batched"
[metrics.comment]
nature = "repeatable"
count = "now"
[metrics.ping]
nature = "repeatable"
count = "now"
window_seconds = 31536000
[metrics.tip]
nature = "repeatable"
count = "now"
users = [{ counter = "favsReceived", of = "author" }]
[metrics.like]
nature = "once"
count = "now"
users = [{ counter = "likesReceived", of = "author" }]
[metrics.fav]
nature = "once"
count = "now"
facts = "bitmap"
[metrics.repost]
nature = "once"
count = "now"
facts = "daily"
[metrics.flag]
nature = "once"
count = "now"
facts = "sharded"
[metrics.share]
nature = "once"
count = "batched"
facts = "sharded"
"#;
const ONCE: [&str; 5] = ["like", "fav", "repost", "flag", "share"];

/// Changes each counter of a note. Each round adds 1 to each, except `tip`, which ends at 0.
fn round(api: &Api, note: u64, round: u64) {
    let (first, second) = (10 * round + 1, 10 * round + 2);
    let keyed = |uid, key: &str| {
        let key = format!("{key}-{note}-{round}");
        with(on_note(note, uid), json!({ "idempotencyKey": key }))
    };
    let author = json!({ "author": 7 });
    for metric in ONCE {
        let is_counted_now = metric != "share";
        let check = |outcome: Json, changed: bool, count: u64| {
            assert_eq!(outcome["changed"], changed, "{metric}: {outcome}");
            if is_counted_now {
                assert_eq!(outcome["count"], count, "{metric}: {outcome}");
            }
        };
        let before = round - 1;
        let added = api.act(metric, on_note(note, first));
        check(added, true, before + 1);
        check(api.act(metric, on_note(note, first)), false, before + 1);
        let named = with(keyed(second, metric), author.clone());
        check(api.act(metric, named.clone()), true, before + 2);
        // The first answer.
        check(api.act(metric, named), true, before + 2);
        let key = format!("un{metric}");
        let undo = with(keyed(first, &key), json!({ "op": "remove" }));
        check(api.act(metric, undo), true, before + 1);
        let repeated = with(on_note(note, first), json!({ "op": "remove" }));
        check(api.act(metric, repeated), false, before + 1);
    }
    let comment = with(keyed(first, "comment"), author.clone());
    assert_eq!(api.act("comment", comment.clone())["count"], round);
    assert_eq!(api.act("comment", comment)["count"], round);
    for changed in [true, false] {
        let outcome = api.act("ping", on_note(note, first));
        assert_eq!(outcome, json!({ "changed": changed, "count": round }));
    }
    for count in [1, 2] {
        let tip = with(on_note(note, first), author.clone());
        assert_eq!(api.act("tip", tip)["count"], count);
    }
    let key = format!("reset-{note}-{round}");
    let reset = json!({ "metric": "tip", "etype": "note", "eid": note, "idempotencyKey": key });
    for _ in 0..2 {
        let response = api.ok(api.post("/counter/reset", &reset));
        assert_eq!(response["was"], 2);
    }
    api.act("read", with(on_note(note, first), author));
}

/// Checks all counters of notes and of their author after some rounds.
fn check(store: &TestStore, api: &Api, notes: &[u64], rounds: u64) {
    wait_until_drained(&store.server, PARTITIONS);
    let items: Vec<Json> = notes
        .iter()
        .map(|note| json!({ "etype": "note", "eid": note }))
        .collect();
    let page = api.ok(api.post("/counter/batch", &json!({ "items": items })));
    for item in page["items"].as_array().expect("items") {
        let expected = json!({
            "read": rounds, "comment": rounds, "ping": rounds, "tip": 0, "like": rounds,
            "fav": rounds, "repost": rounds, "flag": rounds, "share": rounds,
        });
        assert_eq!(item["counts"], expected, "{item}");
    }
    let author = api.user(7);
    let likes = rounds * notes.len() as u64;
    assert_eq!(author["likesReceived"], likes, "{author}");
    assert_eq!(author["favsReceived"], 0, "{author}");
}

fn set_schema(server: &Server) {
    let words = "schema set v1 read comment ping tip like fav repost flag share";
    printed(&run(server, CONFIG, &words.split(' ').collect::<Vec<_>>()));
}

/// The number of rows of the notes and the author.
fn rows(store: &TestStore, client: &mut Client, ids: &[(&str, u64)]) -> i64 {
    let rows = ids.iter().map(|(etype, id)| {
        let table = match *etype {
            "user" => store.user_table(&id.to_string(), PARTITIONS),
            etype => store.table("v1", &format!("{etype}:{id}"), PARTITIONS),
        };
        match client.ok(&format!("CTAB.MGET {table} {id}")) {
            row if reply::array(row.clone())[0] == countint_tests::Value::Nil => 0,
            _ => 1,
        }
    });
    rows.sum()
}

fn set_phase(store: &TestStore, client: &mut Client, phase: &str) {
    for partition in 0..PARTITIONS {
        for etype in ["note", "user"] {
            let phases = store.storage_phases(partition);
            client.ok(&format!("HSET {phases} {etype} {phase}"));
        }
    }
}

fn set_layout(client: &mut Client, storage: &str) {
    for etype in ["note", "user"] {
        client.ok(&format!("HSET countd:layout storage:{etype} {storage}"));
    }
    let epoch = reply::int(client.ok("HINCRBY countd:layout epoch 1"));
    wait_for_epoch(client, epoch);
}

fn each_command_finds_the_counters(store: TestStore) {
    set_schema(&store.server);
    let (command, config) = ("all", CONFIG);
    let countd = Countd::with(&store.server, &Settings { command, config });
    let api = countd.api();
    let mut client = store.server.client();
    let notes = [1, 2, u64::MAX];
    let mut ids: Vec<(&str, u64)> = notes.iter().map(|note| ("note", *note)).collect();
    ids.push(("user", 7));
    let act = |rounds: u64| {
        for note in notes {
            round(&api, note, rounds);
        }
        check(&store, &api, &notes, rounds);
    };
    act(1);
    assert_eq!(objects_of_numbers(&mut client).len(), 4);
    // Slots have no phase yet: all writes are on objects.
    set_layout(&mut client, "moving");
    act(2);
    assert_eq!(objects_of_numbers(&mut client).len(), 4);
    assert_eq!(rows(&store, &mut client, &ids), 0);
    // Writes move the objects.
    set_phase(&store, &mut client, "moving");
    check(&store, &api, &notes, 2);
    act(3);
    assert_eq!(objects_of_numbers(&mut client), [""; 0]);
    assert_eq!(rows(&store, &mut client, &ids), 4);
    // A new note begins as a row.
    for number in 1..=3 {
        round(&api, 3, number);
    }
    let notes = [1, 2, u64::MAX, 3];
    check(&store, &api, &notes, 3);
    assert_eq!(objects_of_numbers(&mut client), [""; 0]);
    set_phase(&store, &mut client, "table");
    for note in notes {
        round(&api, note, 4);
    }
    check(&store, &api, &notes, 4);
    set_layout(&mut client, "table");
    for note in notes {
        round(&api, note, 5);
    }
    check(&store, &api, &notes, 5);
    assert_eq!(objects_of_numbers(&mut client), [""; 0]);
    assert_eq!(printed(&run(&store.server, CONFIG, &["dead", "list"])), "");
}

/// An import adds to the object before its slot has a phase, and to the row afterwards. Each record is applied once.
fn imports_find_the_counters(store: TestStore) {
    set_schema(&store.server);
    let (command, config) = ("all", CONFIG);
    let countd = Countd::with(&store.server, &Settings { command, config });
    let mut client = store.server.client();
    let files = TempDir::new();
    let import = |job: &str| {
        let file = files.path().join("counts.csv");
        fs::write(&file, "etype,eid,read\nnote,1,5\nnote,2,6\nnote,a-1,7\n").expect("a file");
        let file = file.display().to_string();
        let arguments = [
            "import", "counts", "--job", job, "--verify", "minimum", &file,
        ];
        printed(&run(&store.server, CONFIG, &arguments));
    };
    let reads = |expected: [u64; 2]| {
        let found = [1, 2].map(|note| countd.api().counts(note)["read"].clone());
        assert_eq!(found, expected);
    };
    import("first");
    reads([5, 6]);
    set_layout(&mut client, "moving");
    import("second");
    reads([10, 12]);
    assert_eq!(objects_of_numbers(&mut client).len(), 2);
    set_phase(&store, &mut client, "moving");
    import("third");
    reads([15, 18]);
    assert_eq!(objects_of_numbers(&mut client), [""; 0]);
    let other = countd.api().ok(countd.api().get("/counter/note/a-1"));
    assert_eq!(other["counts"]["read"], 21);
}

/// A damaged object fails its own actions, and its events become dead letters. Others are not affected.
fn damaged_objects_fail_their_own_entities(store: TestStore) {
    set_schema(&store.server);
    let (command, config) = ("all", CONFIG);
    let countd = Countd::with(&store.server, &Settings { command, config });
    let api = countd.api();
    let mut client = store.server.client();
    for note in [1, 2, 3] {
        api.act("comment", on_note(note, 1));
    }
    let object = |note: u64| store.counters("v1", &format!("note:{note}"), PARTITIONS);
    client.ok(&format!("SET {} text", object(2)));
    client.ok(&format!("DEL {}", object(3)));
    client.ok(&format!("CINT.SET {} LEN 2 0 4", object(3)));
    set_layout(&mut client, "moving");
    for phase in ["", "moving"] {
        if !phase.is_empty() {
            set_phase(&store, &mut client, phase);
        }
        for note in [2, 3] {
            let (status, response) = api.post("/action/comment", &on_note(note, 1));
            assert_eq!(status, 500, "{response}");
            api.act("read", on_note(note, 1));
        }
        api.act("read", on_note(1, 1));
        wait_until_drained(&store.server, PARTITIONS);
    }
    assert_eq!(api.counts(1)["read"], 2);
    let dead = crate::support::dead_reasons(&store.server, CONFIG);
    assert_eq!(dead.len(), 4, "{dead:?}");
    for note in [2, 3] {
        let named = dead.iter().filter(|reason| reason.contains(&object(note)));
        assert_eq!(named.count(), 2, "{dead:?}");
    }
}

for_each_store!([objects cluster_objects]
    each_command_finds_the_counters
    imports_find_the_counters
    damaged_objects_fail_their_own_entities
);
