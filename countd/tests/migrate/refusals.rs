//! What a migration refuses, reports and leaves.

use super::setup::{CONFIG, PARTITIONS, assert_migrated, migrate, objects_of_numbers, start};
use crate::support::stores::{TestStore, objects, plain};
use crate::support::{
    Api, Countd, Settings, on_note, pause, printed, run, set_schema, wait_until_drained,
};
use countint_tests::env::deadline;
use countint_tests::{Server, wait_until};
use serde_json::{Value as Json, json};
use std::time::Instant;

fn refused(server: &Server, target: &str, options: &[&str], reason: &str) {
    let (succeeded, _, errors) = start(server, target, options).end();
    assert!(!succeeded && errors.contains(reason), "{errors}");
}

#[test]
fn data_without_the_module_is_refused() {
    let store = plain();
    set_schema(&store.server, &CONFIG);
    refused(
        &store.server,
        "note",
        &[],
        "this data was created without the module",
    );
}

#[test]
fn unknown_types_are_refused() {
    let store = objects();
    refused(&store.server, "video", &[], "there is no entity type video");
}

/// Its process sends no heartbeat.
#[test]
fn consumers_of_an_older_version_are_refused() {
    let store = objects();
    let mut client = store.server.client();
    client.ok("ZADD countd:consumers 9999999999999 1-0123456789abcdef/10000");
    refused(&store.server, "note", &[], "is of an older version");
    let storage = client.ok("HGET countd:layout storage:note");
    assert_eq!(countint_tests::reply::text(storage), "object");
}

#[test]
fn a_second_migration_is_refused() {
    let store = objects();
    let mut client = store.server.client();
    client.ok("SET countd:migrate other");
    refused(&store.server, "note", &[], "another migration is running");
    // It expires, or is released.
    client.ok("PEXPIRE countd:migrate 1000");
    migrate(&store.server, "note");
    client.expect("EXISTS countd:migrate", "(integer) 0");
}

fn object(store: &TestStore, note: &str) -> String {
    store.counters("v1", &format!("note:{note}"), PARTITIONS)
}

#[test]
fn other_ids_stay_objects() {
    let store = objects();
    let (command, config): (_, &str) = ("all", &CONFIG);
    set_schema(&store.server, config);
    let countd = Countd::with(&store.server, &Settings { command, config });
    let api = countd.api();
    let ids = [
        "007",
        "a-1",
        "18446744073709551616",
        "1",
        "18446744073709551615",
    ];
    let like = |uid: u64| {
        for id in ids {
            api.act("like", json!({ "etype": "note", "eid": id, "uid": uid }));
        }
    };
    like(1);
    migrate(&store.server, "note");
    like(2);
    wait_until_drained(&store.server, PARTITIONS);
    for id in ids {
        let counts = api.ok(api.get(&format!("/counter/note/{id}")));
        assert_eq!(counts["counts"]["like"], 2, "{id}");
        let is_object = id.parse::<u64>().is_err() || id.starts_with('0');
        let exists = store
            .server
            .client()
            .ok(&format!("EXISTS {}", object(&store, id)));
        assert_eq!(
            countint_tests::reply::int(exists),
            i64::from(is_object),
            "{id}"
        );
    }
    let printed = migrate(&store.server, "note");
    assert!(printed.contains("moved 0 objects"), "{printed}");
}

#[test]
fn damaged_objects_are_reported() {
    let store = objects();
    set_schema(&store.server, &CONFIG);
    let mut client = store.server.client();
    client.ok("CINT.SET cnt:v1:note:1 LEN 5 1 11");
    client.ok("SET cnt:v1:note:2 text");
    client.ok("CINT.SET cnt:v1:note:3 LEN 2 1 1");
    refused(&store.server, "note", &[], "2 objects cannot be moved");
    let (succeeded, output, errors) =
        start(&store.server, "note", &["--skip-damaged", "--json"]).end();
    assert!(succeeded, "{errors}");
    let report: Json = serde_json::from_str(&output).expect("JSON");
    assert_eq!(report["target"], "note");
    assert_eq!(report["moved"], 0, "the first run has moved it");
    let damaged = report["damaged"].as_array().expect("objects");
    let mut keys: Vec<&str> = damaged
        .iter()
        .filter_map(|one| one["key"].as_str())
        .collect();
    keys.sort_unstable();
    assert_eq!(keys, ["cnt:v1:note:2", "cnt:v1:note:3"]);
    let (command, config): (_, &str) = ("serve", &CONFIG);
    let countd = Countd::with(&store.server, &Settings { command, config });
    assert_eq!(countd.api().counts(1)["like"], 11);
    // Both keep being named.
    let text = printed(&run(&store.server, &CONFIG, &["check"]));
    for key in keys {
        assert!(text.contains(&format!("note: {key} was left")), "{text}");
    }
}

/// A process that was suspended for longer than the grace period can create an object again. The check names it, and another run adds it.
#[test]
fn objects_that_appear_later_are_named_and_added() {
    let store = objects();
    let (command, config): (_, &str) = ("all", &CONFIG);
    set_schema(&store.server, config);
    let countd = Countd::with(&store.server, &Settings { command, config });
    let api = countd.api();
    api.act("like", on_note(1, 1));
    migrate(&store.server, "note");
    let mut client = store.server.client();
    client.ok("CINT.INCRBY cnt:v1:note:1 1 1 LEN 5");
    client.ok("RBM.ADD rbm:like:note:1 2");
    let text = printed(&run(&store.server, &CONFIG, &["check"]));
    assert!(text.contains("note: cnt:v1:note:1 was left"), "{text}");
    let printed = migrate(&store.server, "note");
    assert!(
        printed.contains("1 of them to rows that existed"),
        "{printed}"
    );
    assert_eq!(api.counts(1)["like"], 2);
    assert_eq!(objects_of_numbers(&mut client), [""; 0]);
    migrate(&store.server, "user");
    assert_migrated(&[&store.server]);
}

/// Waits until a process refuses requests.
fn wait_for_refusal(api: &Api) {
    let limit = Instant::now() + deadline(90);
    while api.get("/counter/note/1").0 != 503 {
        assert!(Instant::now() < limit, "gave up waiting for a refusal");
        pause();
    }
}

/// A process that cannot check the layout does not know where counters are.
#[test]
fn a_process_without_the_current_layout_answers_503() {
    let store = objects();
    let (command, config): (_, &str) = ("serve", &CONFIG);
    set_schema(&store.server, config);
    let countd = Countd::with(&store.server, &Settings { command, config });
    let api = countd.api();
    api.act("like", on_note(1, 1));
    let mut client = store.server.client();
    client.ok("RENAME countd:layout kept");
    client.ok("SET countd:layout damaged");
    wait_for_refusal(&api);
    let adjustment =
        json!({ "etype": "note", "eid": "1", "metric": "read", "add": 5, "reason": "a test" });
    for (status, response) in [
        api.get("/counter/note/1"),
        api.post("/action/like", &on_note(1, 2)),
        api.post("/counter/adjust", &adjustment),
        api.delete("/entity/note/1"),
        api.delete("/user/1"),
    ] {
        assert_eq!((status, &response["code"]), (503, &json!("unavailable")));
    }
    assert_eq!(api.get("/healthz").0, 200);
    client.ok("RENAME kept countd:layout");
    wait_until("the layout is known again", || {
        api.get("/counter/note/1").0 == 200
    });
    assert_eq!(api.counts(1)["read"], 0);
    client.expect("HLEN countd:{jobs}", "(integer) 0");
}

/// Another process has started the job.
#[test]
fn a_process_without_the_current_layout_runs_no_jobs() {
    let store = objects();
    let (command, config): (_, &str) = ("all", &CONFIG);
    set_schema(&store.server, config);
    let countd = Countd::with(&store.server, &Settings { command, config });
    let api = countd.api();
    api.act("like", on_note(1, 7));
    wait_until_drained(&store.server, PARTITIONS);
    let mut client = store.server.client();
    client.ok("RENAME countd:layout kept");
    client.ok("SET countd:layout damaged");
    wait_for_refusal(&api);
    client.ok("HSET countd:{jobs}:1 target user:7 kind eraseUser state queued created 1");
    client.ok("HSET countd:{jobs} user:7 1");
    wait_until("the job was refused", || {
        countd
            .log()
            .lines()
            .any(|line| line.contains("jobs cannot be run now") && line.contains("30 seconds"))
    });
    client.expect("HGET countd:{jobs}:1 state", "\"queued\"");
    client.ok("RENAME kept countd:layout");
    wait_until("the job ends", || {
        let (status, job) = api.get("/jobs/1");
        status == 200 && job["state"] == "done"
    });
    assert_eq!(api.counts(1)["like"], 0);
}
