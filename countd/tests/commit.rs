//! Commits of rows of tables: in chunks, all or nothing, and with growing tables.

use crate::support::stores::{TestStore, for_each_store};
use crate::support::{
    Countd, Settings, dead_reasons, on_note, printed, run, set_schema, wait_until_drained,
};
use countint_tests::{Client, Server, reply, wait_until};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// A batch is larger than every log of the tests, so that few commits count all of it.
const BATCH: &str = "[consumer]\nlinger_ms = 5\nbatch = 10000\n";
const MAX: u64 = (1 << 40) - 1;

fn config(partitions: u16) -> String {
    format!("[log]\npartitions = {partitions}\n{BATCH}[entities]\nnote = \"v1\"\nvideo = \"v1\"\n")
}

fn event(etype: &str, eid: impl Into<Json>, metric: &str, delta: i64) -> Json {
    let eid = eid.into();
    json!({ "etype": etype, "eid": eid, "metric": metric, "delta": delta, "uid": 9 })
}

/// Appends events to the logs of their entities.
fn append(store: &TestStore, partitions: u16, events: &[Json]) {
    let entries: Vec<Vec<String>> = events
        .iter()
        .map(|event| {
            let eid = match &event["eid"] {
                Json::String(eid) => eid.clone(),
                eid => eid.to_string(),
            };
            let entity = format!("{}:{eid}", event["etype"].as_str().expect("a type"));
            let log = store.log(TestStore::partition(&entity, partitions));
            let words = ["XADD", log.as_str(), "0-*", "e", &event.to_string()];
            words.map(str::to_owned).to_vec()
        })
        .collect();
    for reply in store.server.client().pipeline(&entries) {
        assert!(!reply::format(&reply).contains("error"), "{reply:?}");
    }
}

/// Starts a consumer, and stops it when it has counted all events.
fn count(store: &TestStore, partitions: u16) {
    let config = &config(partitions);
    let command = "consume";
    let _countd = Countd::with(&store.server, &Settings { command, config });
    wait_until_drained(&store.server, partitions);
}

/// A counter of a row.
fn row(store: &TestStore, entity: &str, idx: u16, partitions: u16) -> i64 {
    let key = store.counters("v1", entity, partitions);
    let (_, id) = entity.split_once(':').expect("a type and an ID");
    reply::int(
        store
            .server
            .client()
            .ok(&format!("CTAB.GET {key} {id} {idx}")),
    )
}

/// The values of counters of rows, by id.
fn rows(store: &TestStore, key: &str, ids: impl Iterator<Item = i64>) -> Vec<i64> {
    let gets: Vec<Vec<String>> = ids
        .map(|id| {
            ["CTAB.GET", key, &id.to_string(), "0"]
                .map(str::to_owned)
                .to_vec()
        })
        .collect();
    let replies = store.server.client().pipeline(&gets).into_iter();
    replies.map(reply::int).collect()
}

/// Runs the function of the commit script that adds to a table.
fn increments_are_passed_in_chunks_of_whole_triples(store: TestStore) {
    let script = [
        "#!lua",
        include_str!("../src/lua/permission.lua"),
        include_str!("../src/lua/backend_module.lua"),
        "table_add(KEYS[1], 5, ARGV, 2, #ARGV - 1)",
    ]
    .join("\n");
    let mut client = store.server.client();
    for (count, chunks) in [
        (1, 1),
        (1_199, 1),
        (1_200, 1),
        (1_201, 2),
        (2_400, 2),
        (5_000, 5),
    ] {
        let key = format!("tab:v1:note:{count}");
        let mut call: Vec<String> = ["EVAL", &script, "1", &key, "before"]
            .map(str::to_owned)
            .into();
        for id in 1..=count {
            call.extend([id.to_string(), "0".to_owned(), (id * 3).to_string()]);
        }
        call.push("after".to_owned());
        client.ok("CONFIG RESETSTAT");
        let reply = reply::format(&client.call(&call));
        assert_eq!(reply, "(nil)", "{count}");
        assert_eq!(store.calls_of("ctab.mincrby"), chunks, "{count}");
        let expected: Vec<i64> = (1..=count).map(|id| id * 3).collect();
        assert_eq!(rows(&store, &key, 1..=count), expected);
    }
}

fn a_table_of_many_increments_is_committed_exactly_once(store: TestStore) {
    set_schema(&store.server, &config(1));
    let key = store.counters("v1", "note:1", 1);
    for count_of in [1_199, 1_200, 1_201, 5_000] {
        // Each note has its number as the count. Later notes come first.
        let from = count_of * 10_000;
        let events: Vec<Json> = (0..count_of)
            .rev()
            .map(|note| event("note", from + note, "read", note + 1))
            .collect();
        append(&store, 1, &events);
        store.server.client().ok("CONFIG RESETSTAT");
        count(&store, 1);
        assert_eq!(store.calls_of("ctab.batchincr"), 0);
        let counts = rows(&store, &key, from..from + count_of);
        assert_eq!(counts, (1..=count_of).collect::<Vec<_>>());
    }
    assert_eq!(dead_reasons(&store.server, &config(1)), [""; 0]);
}

/// A commit that is rejected because of one table must not have changed any other: the events are committed again without it.
fn a_table_of_another_type_is_found_before_the_first_write(store: TestStore) {
    const PARTITIONS: u16 = 4;
    const NOTES: u64 = 200;
    let config = &config(PARTITIONS);
    set_schema(&store.server, config);
    let mut client = store.server.client();
    let damaged = store.counters("v1", "note:1", PARTITIONS);
    client.ok(&format!("SET {damaged} text"));
    let mut events = Vec::new();
    for note in 1..=NOTES {
        events.push(event("note", note, "read", 1));
        events.push(event("note", format!("n-{note}"), "read", 1));
        let mut like = event("video", note, "like", 1);
        like["author"] = json!(note);
        events.push(like);
    }
    append(&store, PARTITIONS, &events);
    count(&store, PARTITIONS);

    let is_damaged =
        |note: u64| store.counters("v1", &format!("note:{note}"), PARTITIONS) == damaged;
    let dead = (1..=NOTES).filter(|note| is_damaged(*note)).count();
    assert!(dead > 20 && dead < 100, "{dead} notes are in the table");
    let reason = format!("{damaged} holds another type");
    assert_eq!(dead_reasons(&store.server, config), vec![reason; dead]);
    let assert_counted = |is_counted: &dyn Fn(u64) -> bool| {
        let mut client = store.server.client();
        for note in 1..=NOTES {
            if is_counted(note) {
                assert_eq!(row(&store, &format!("note:{note}"), 0, PARTITIONS), 1);
            }
            assert_eq!(row(&store, &format!("video:{note}"), 1, PARTITIONS), 1);
            let object = store.counters("v1", &format!("note:n-{note}"), PARTITIONS);
            client.expect(&format!("CINT.GET {object} 0"), "(integer) 1");
            let user = store.user_counters(&note.to_string(), PARTITIONS);
            client.expect(&format!("CTAB.GET {user} {note} 3"), "(integer) 1");
        }
    };
    assert_counted(&|note| !is_damaged(note));

    client.ok(&format!("DEL {damaged}"));
    let retried = printed(&run(&store.server, config, &["dead", "retry", "--all"]));
    assert_eq!(retried, format!("{dead} retried, 0 left\n"));
    count(&store, PARTITIONS);
    assert_counted(&|_| true);
}

/// Every chunk of a table grows it: the chunks after the first must not depend on its length either.
fn a_table_grows_when_its_schema_is_extended(store: TestStore) {
    const NOTES: i64 = 1_201;
    let config = &config(1);
    set_schema(&store.server, config);
    let reads: Vec<Json> = (1..=NOTES)
        .map(|note| event("note", note, "read", note))
        .collect();
    append(&store, 1, &reads);
    count(&store, 1);
    let key = store.counters("v1", "note:1", 1);
    let len = || {
        let info = reply::format(&store.server.client().ok(&format!("CTAB.INFO {key}")));
        let line = info.lines().nth(1).expect("the length");
        line.trim_start_matches(" 2) ").to_owned()
    };
    assert_eq!(len(), "(integer) 5");
    printed(&run(
        &store.server,
        config,
        &["schema", "extend", "v1", "share"],
    ));
    let shares: Vec<Json> = (1..=NOTES)
        .map(|note| event("note", note, "share", 2 * note))
        .collect();
    append(&store, 1, &shares);
    count(&store, 1);
    assert_eq!(len(), "(integer) 6");
    for note in [1, 2, 1_200, NOTES] {
        let entity = format!("note:{note}");
        let counts = [0, 1, 5].map(|idx| row(&store, &entity, idx, 1));
        assert_eq!(counts, [note, 0, 2 * note]);
    }
    assert_eq!(dead_reasons(&store.server, config), [""; 0]);
}

fn rows_stop_at_zero_and_at_the_maximum(store: TestStore) {
    let config = &config(1);
    set_schema(&store.server, config);
    let max = MAX as i64;
    let counts = |deltas: &[(u64, i64)]| -> BTreeMap<u64, i64> {
        let events: Vec<Json> = deltas
            .iter()
            .map(|(note, delta)| event("note", *note, "read", *delta))
            .collect();
        append(&store, 1, &events);
        count(&store, 1);
        let notes = deltas.iter().map(|(note, _)| *note);
        let rows = notes.map(|note| (note, row(&store, &format!("note:{note}"), 0, 1)));
        rows.collect()
    };
    let first = counts(&[
        (1, max - 1),
        (2, -5),
        (3, 7),
        (u64::MAX, max),
        (u64::MAX, max),
    ]);
    let expected = [(1, max - 1), (2, 0), (3, 7), (u64::MAX, max)];
    assert_eq!(first, BTreeMap::from(expected));
    let second = counts(&[(1, 2), (2, 3), (3, -8), (u64::MAX, -max)]);
    let expected = [(1, max), (2, 3), (3, 0), (u64::MAX, 0)];
    assert_eq!(second, BTreeMap::from(expected));
}

for_each_store!([module cluster]
    increments_are_passed_in_chunks_of_whole_triples
    a_table_of_many_increments_is_committed_exactly_once
    a_table_of_another_type_is_found_before_the_first_write
    a_table_grows_when_its_schema_is_extended
    rows_stop_at_zero_and_at_the_maximum
);

/// What a consumer has read and not committed may be lost in a failover. Other entries then have the same IDs.
#[test]
fn entries_of_another_history_are_read_again() {
    let server = Server::start();
    let config = "[log]\npartitions = 1\n[consumer]\nlinger_ms = 3000\n";
    set_schema(&server, config);
    let command = "all";
    let countd = Countd::with(&server, &Settings { command, config });
    let (api, mut client) = (countd.api(), server.client());
    let blocked = |client: &mut Client| client.info_number("clients", "blocked_clients");
    let (log, positions) = ("x:cnt-update:0", "x:cnt-update:pos");
    wait_until("the consumer waits for entries", || {
        blocked(&mut client) > 0
    });
    api.act("read", on_note(111, 7));
    wait_until("the consumer has read the entry", || {
        blocked(&mut client) == 0
    });
    let entries = reply::array(client.ok(&format!("XRANGE {log} - +")));
    let [entry] = entries.as_slice() else {
        panic!("one entry: {entries:?}");
    };
    let [id, strings] = reply::array(entry.clone())
        .try_into()
        .expect("ID and strings");
    let mut words: Vec<String> = ["XADD", log].map(str::to_owned).to_vec();
    words.push(reply::text(id));
    let strings = reply::array(strings).into_iter().map(reply::text);
    words.extend(strings.map(|string| string.replace("111", "222")));
    let command = |text: &str| text.split(' ').map(str::to_owned).collect();
    client.pipeline(&[
        command("MULTI"),
        command("DEBUG CHANGE-REPL-ID"),
        command(&format!("DEL {log}")),
        words,
        command("EXEC"),
    ]);
    assert_eq!(client.run(&format!("EXISTS {positions}")), "(integer) 0");
    wait_until_drained(&server, 1);
    let reads = [111, 222].map(|note| api.counts(note)["read"].clone());
    assert_eq!(reads, [0, 1]);
}
