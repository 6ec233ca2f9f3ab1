//! Everything else that uses counters, while schemas are migrated.

use super::setup::{CONFIG, NEW, OLD, PARTITIONS, counts, migrate, names, set_schemas};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{module, objects};
use crate::support::{Countd, Settings, on_note, printed, run, wait_until_drained};
use countint_tests::wait_until;
use serde_json::json;

#[test]
fn counters_are_adjusted_reset_rebuilt_and_erased_in_each_stage() {
    let store = module();
    let server = &store.server;
    set_schemas(server);
    let (command, config): (_, &str) = ("all", &CONFIG);
    let countd = Countd::with(server, &Settings { command, config });
    let api = countd.api();
    let mut client = server.client();
    for (round, options) in [&[][..], &["--percent", "100"], &["--done"], &["--rollback"]]
        .into_iter()
        .enumerate()
    {
        migrate(server, options);
        let first = 10 * round as u64;
        let (adjusted, damaged, erased) = (first, first + 1, first + 2);
        for note in [adjusted, damaged, erased] {
            for user in 1..=3 {
                api.act("like", on_note(note, user));
            }
        }
        wait_until_drained(server, PARTITIONS);
        let adjust = |metric: &str, change: i64| {
            let body = json!({ "etype": "note", "eid": adjusted, "metric": metric, "add": change, "reason": "test" });
            let (status, answer) = api.post("/counter/adjust", &body);
            assert_eq!(status, 200, "{answer}");
        };
        // By the name in either schema. The days of the metric and the credit of the author follow.
        for (metric, change) in [("comment", 5), ("liked", 2), ("like", -1), ("liked", -1)] {
            adjust(metric, change);
        }
        assert_eq!(counts(&api, adjusted)["comment"], 5);
        let table = store.table("v1", &format!("note:{damaged}"), PARTITIONS);
        client.ok(&format!("CTAB.DEL {table} {damaged}"));
        wait_until("the lost counter is rebuilt", || {
            let found = counts(&api, damaged);
            found.get("like").or(found.get("liked")) == Some(&3)
        });
        let (status, job) = api.delete(&format!("/entity/note/{erased}"));
        assert_eq!(status, 202, "{job}");
        wait_until("the note is erased", || {
            counts(&api, erased).values().all(|count| *count == 0)
        });
    }
    printed(&run(server, config, &["reconcile", "--all", "--exact"]));
    assert_invariants(server, config);
}

#[test]
fn storage_moves_while_a_schema_is_migrated() {
    let store = objects();
    let server = &store.server;
    set_schemas(server);
    let (command, config): (_, &str) = ("all", &CONFIG);
    let countd = Countd::with(server, &Settings { command, config });
    let api = countd.api();
    let act = |metrics: &[&str], user| {
        for note in 0..50 {
            for metric in metrics {
                api.act(metric, on_note(note, user));
            }
        }
    };
    act(&["like"], 1);
    migrate(server, &[]);
    act(&["like", "share"], 2);
    printed(&run(
        server,
        config,
        &["storage", "migrate", "note", "--grace", "1"],
    ));
    server
        .client()
        .expect("HGET countd:layout storage:note", "\"table/v1\"");
    act(&["like", "share"], 3);
    migrate(server, &["--percent", "100"]);
    wait_until_drained(server, PARTITIONS);
    for note in 0..50 {
        let found = counts(&api, note);
        assert_eq!((found["liked"], found["share"]), (3, 2), "note {note}");
    }
    migrate(server, &["--rollback"]);
    assert_eq!(counts(&api, 7)["like"], 3);
    assert_invariants(server, config);
}

#[test]
fn added_counters_start_with_what_was_done_before() {
    let store = module();
    let server = &store.server;
    printed(&run(
        server,
        &CONFIG,
        &["schema", "set", "v1", "read", "like", "comment", "repost"],
    ));
    printed(&run(
        server,
        &CONFIG,
        &["schema", "set", "v2", "fav", "like", "comment"],
    ));
    let (command, config): (_, &str) = ("all", &CONFIG);
    let countd = Countd::with(server, &Settings { command, config });
    let api = countd.api();
    for note in 0..40 {
        api.act("like", on_note(note, 1));
    }
    assert_eq!(api.post("/action/fav", &on_note(1, 1)).0, 422);
    // Facts of before: another program has kept them.
    for note in 0..40 {
        let words = format!("RBM.ADD rbm:fav:note:{note} 1 2 {}", 3 + note);
        server.client().ok(&words);
    }
    for words in ["schema migrate v1 v2", "schema migrate v1 v2 --percent 100"] {
        let words: Vec<&str> = words.split(' ').collect();
        printed(&run(server, &CONFIG, &words));
    }
    for note in 0..40 {
        let found = counts(&api, note);
        assert_eq!(names(&found), ["comment", "fav", "like"]);
        assert_eq!((found["fav"], found["like"]), (3, 1));
    }
    api.act("fav", on_note(1, 77));
    assert_eq!(counts(&api, 1)["fav"], 4);
}

#[test]
fn schemas_are_extended_while_they_are_migrated() {
    let store = module();
    let server = &store.server;
    set_schemas(server);
    let extra = "[metrics.save]\nnature = \"repeatable\"\ncount = \"batched\"\n[metrics.tip]\nnature = \"repeatable\"\ncount = \"batched\"\n";
    let config = format!("{}{extra}", *CONFIG);
    let settings = Settings {
        command: "all",
        config: &config,
    };
    let countd = Countd::with(server, &settings);
    let api = countd.api();
    migrate(server, &[]);
    printed(&run(server, &config, &["schema", "extend", "v2", "save"]));
    printed(&run(server, &config, &["schema", "extend", "v1", "tip"]));
    for metric in ["save", "tip", "share"] {
        wait_until("the counter is known", || {
            let action = json!({ "etype": "note", "eid": 7, "uid": 1, "idempotencyKey": metric });
            api.post(&format!("/action/{metric}"), &action).0 == 200
        });
    }
    wait_until_drained(server, PARTITIONS);
    migrate(server, &["--percent", "100"]);
    let found = counts(&api, 7);
    assert_eq!((found["save"], found["share"]), (1, 1));
    assert!(!found.contains_key("tip"));
    // A process that declares the schemas, with one more counter of each, starts.
    let declared = "[schemas.v1]\ncounters = [\"read\", \"like\", \"fav\", \"comment\", \"repost\"]\n[schemas.v2]\ncounters = [\"comment\", \"share\", \"liked\", \"read\", \"favs\", \"save\", \"gift\"]\n";
    let config = format!("{config}{declared}[entities]\nnote = \"v2\"\n");
    let settings = Settings {
        command: "serve",
        config: &config,
    };
    let other = Countd::with(server, &settings);
    assert_eq!(counts(&other.api(), 7)["gift"], 0);
    drop(other);
    migrate(server, &["--rollback"]);
    let found = counts(&api, 7);
    assert_eq!(found["tip"], 1);
    assert!(OLD.iter().all(|name| found.contains_key(*name)));
    assert!(!found.contains_key("share") && NEW.contains(&"share"));
    assert_invariants(server, &config.replace("note = \"v2\"", "note = \"v1\""));
}
