//! The progress of long commands has a total, so that a bar can show a percentage and the time that is left.

mod archives;

use crate::json_output::{Printed, with_json};
use crate::schema_migrate::setup;
use crate::support::stores::{TestStore, for_each_store, module};
use crate::support::{Countd, on_note, printed, run, set_schema, wait_until_drained, with};
use crate::user_truth::forge;
use countint_tests::{Client, reply, wait_until};
use serde_json::{Value as Json, json};

const PARTITIONS: u16 = 16;
/// Without rounds, only the command compares.
const CONFIG: &str = "[log]\npartitions = 16\n[consumer]\nlinger_ms = 5\nsession_timeout_ms = 500\n[reconcile]\nenabled = false\nmin_difference = 0\nmin_percent = 0.0\n[limits]\nuser = { per_second = 0 }\n";

for_each_store! {
    [module objects plain cluster]
    the_comparison_of_users_says_how_much_of_all_is_done
    a_backfill_says_how_many_of_all_keys_were_read
    a_reset_says_how_many_entries_of_the_logs_are_handled
    a_migration_of_a_schema_says_how_many_keys_were_read
}

fn the_comparison_of_users_says_how_much_of_all_is_done(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    for uid in 1..=20 {
        for followed in ["7", "a-7"] {
            api.act("follow", json!({ "eid": followed, "uid": uid }));
        }
        api.act("like", with(on_note(uid, uid), json!({ "author": "7" })));
    }
    wait_until_drained(&store.server, PARTITIONS);
    // The correction needs a sweep over all facts of users.
    forge(&store, "3", 0, 9);
    let compared = with_json(&store, CONFIG, &["reconcile", "--all"]);
    assert_eq!(compared.report()["metrics"]["followings"]["corrected"], 1);
    for step in [
        "comparing users",
        "comparing users with their facts",
        "comparing all facts of users",
        "visiting authors",
        "comparing received counters",
    ] {
        let done = compared.completed(step);
        assert_eq!(done["unit"], "keys and rows", "{done}");
    }
    let found = |step: &str, name: &str| compared.completed(step)[name].as_u64();
    assert!(found("comparing users", "users") >= Some(2));
    // A user is met once for each key and each row.
    let with_facts = found("comparing users with their facts", "users");
    assert!(with_facts >= Some(20), "{with_facts:?}");
    // One registration for each note.
    assert_eq!(found("visiting authors", "authors"), Some(20));
    // Each of the keys has some of the facts or of the timelines.
    let keys = found("comparing all facts of users", "facts and timelines");
    assert!(keys >= Some(20), "{keys:?}");
}

fn a_backfill_says_how_many_of_all_keys_were_read(store: TestStore) {
    let metric = |facts: &str, reverse: bool| {
        format!(
            "{CONFIG}[metrics.pin]\nnature = \"once\"\ncount = \"never\"\nfacts = \"{facts}\"\nreverse = {reverse}\n"
        )
    };
    let mut countd = Countd::start(&store.server, &metric("daily", false));
    let api = countd.api();
    for uid in 1..=30 {
        api.act("pin", on_note(uid % 10, uid));
    }
    wait_until_drained(&store.server, PARTITIONS);
    countd.stop();
    let config = metric("daily", true);
    let _countd = Countd::start(&store.server, &config);
    let keys = reply::int(store.server.client().ok("DBSIZE")) as u64;
    let read = with_json(
        &store,
        &config,
        &["reverse", "backfill", "pin", "--grace", "0"],
    );
    // Both passes find each fact.
    assert_eq!(*read.report(), json!({ "metric": "pin", "facts": 60 }));
    let done = read.completed("reading facts");
    assert_eq!(
        (&done["unit"], &done["facts"]),
        (&json!("keys"), &json!(60))
    );
    // Two passes, each with a scan of the days and one of the compacted facts. Few keys appear or expire meanwhile.
    let total = done["total"].as_u64().expect("a total");
    assert!(
        total >= 4 * keys / 2 && total <= 4 * (keys + 50),
        "{total} of {keys} keys"
    );
}

/// Appends entries that cannot be counted, and waits until they are dead letters.
fn bury(store: &TestStore, count: usize) {
    let mut client = store.server.client();
    let length = |client: &mut Client| reply::int(client.ok("XLEN x:cnt-update:dead"));
    let before = length(&mut client);
    for _ in 0..count {
        client.ok("XADD x:cnt-update:0 0-* e {}");
    }
    wait_until("they are dead letters", || {
        length(&mut client) == before + count as i64
    });
}

#[test]
fn dead_letters_are_handled_one_of_all() {
    let store = module();
    let _countd = Countd::start(&store.server, CONFIG);
    bury(&store, 3);
    let of = |printed: &Printed, step: &str| {
        let done = printed.completed(step);
        (done["done"].as_u64(), done["unit"].clone())
    };
    let retried = with_json(&store, CONFIG, &["dead", "retry", "--all"]);
    assert_eq!(*retried.report(), json!({ "retried": 3, "left": 0 }));
    assert_eq!(of(&retried, "retried"), (Some(3), json!("dead letters")));
    let first = &retried.errors[0]["progress"];
    assert_eq!((&first["done"], &first["total"]), (&json!(1), &json!(3)));
    wait_until_drained(&store.server, PARTITIONS);
    let listed = printed(&run(&store.server, CONFIG, &["dead", "list"]));
    let letters = listed
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let ids = letters.map(|letter: Json| letter["id"].as_str().expect("an ID").to_owned());
    let ids: Vec<String> = ids.collect();
    assert_eq!(ids.len(), 3, "{listed}");
    let dropped = with_json(&store, CONFIG, &["dead", "drop", &ids[0], &ids[2]]);
    assert_eq!(*dropped.report(), json!({ "dropped": 2, "left": 0 }));
    assert_eq!(of(&dropped, "dropped"), (Some(2), json!("dead letters")));
}

fn a_reset_says_how_many_entries_of_the_logs_are_handled(store: TestStore) {
    set_schema(&store.server, CONFIG);
    let mut client = store.server.client();
    // A step moves 1,000 entries.
    for (partition, entries) in [(2, 2_500), (5, 700)] {
        let (log, positions) = (store.log(partition), store.positions(partition));
        let append = |entry: u64| {
            let id = format!("0-{entry}");
            ["XADD", &log, &id, "e", "{}"].map(str::to_owned).to_vec()
        };
        client.pipeline(&(1..=entries).map(append).collect::<Vec<_>>());
        client.ok(&format!("HSET {positions} {partition} 9000"));
    }
    let reset = |uncounted: &str| {
        let words = ["log", "reset", "2", "5", "--uncounted", uncounted];
        with_json(&store, CONFIG, &words)
    };
    let all = reset("all");
    let partitions = &all.report()["partitions"];
    assert_eq!(
        (&partitions[0]["uncounted"], &partitions[1]["uncounted"]),
        (&json!(2_500), &json!(700))
    );
    let done = all.completed("resetting");
    assert_eq!(
        (&done["unit"], &done["total"]),
        (&json!("entries"), &json!(3_200))
    );
    let first = &all.errors[0]["progress"];
    assert_eq!(first["done"], 0, "{first}");
    // Entries that are deleted as counted are handled, too.
    for partition in [2, 5] {
        let positions = store.positions(partition);
        client.ok(&format!("HSET {positions} {partition} 20000"));
    }
    assert_eq!(reset("none").completed("resetting")["total"], 3_200);
}

fn a_migration_of_a_schema_says_how_many_keys_were_read(store: TestStore) {
    setup::set_schemas(&store.server);
    let mut client = store.server.client();
    client.ok("DEBUG POPULATE 3000 other");
    let keys = reply::int(client.ok("DBSIZE")) as u64;
    let migrated = with_json(&store, &setup::CONFIG, &setup::arguments(&[]));
    assert_eq!(migrated.report()["migrations"][0]["stage"], "read-new");
    let done = migrated.completed("looking for counters of the new schema");
    assert_eq!(done["unit"], "keys");
    let total = done["total"].as_u64().expect("a total");
    assert!((keys..keys + 50).contains(&total), "{total} of {keys} keys");
}
