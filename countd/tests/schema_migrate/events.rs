//! Events in the log that name counters and schemas by any of their names.

use super::setup::{CONFIG, PARTITIONS, counts, migrate, set_schemas};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, cluster, module};
use crate::support::{Countd, Settings, on_note, printed, run, wait_until_drained};
use serde_json::json;

#[test]
fn events_count_by_each_name_of_their_counter_and_schema() {
    assert_events_count(&module());
}

#[test]
fn events_count_by_each_name_of_their_counter_and_schema_in_cluster_mode() {
    assert_events_count(&cluster());
}

fn assert_events_count(store: &TestStore) {
    let server = &store.server;
    set_schemas(server);
    let (command, config): (_, &str) = ("all", &CONFIG);
    let countd = Countd::with(server, &Settings { command, config });
    let api = countd.api();
    let mut client = server.client();
    let log = store.log(TestStore::partition("note:7", PARTITIONS));
    let mut append = |schema: &str, metric: &str| {
        let event = json!({
            "schema": schema, "etype": "note", "eid": "7", "metric": metric, "delta": 1, "uid": "9",
        });
        client.call(&["XADD", &log, "0-*", "e", &event.to_string()]);
    };
    // Not yet known: a dead letter.
    append("v1", "share");
    wait_until_drained(server, PARTITIONS);
    assert_eq!(crate::support::dead_reasons(server, config).len(), 1);
    migrate(server, &[]);
    let mut expected = (0, 0, 0);
    let mut check = |options: &[&str]| {
        if !options.is_empty() {
            migrate(server, options);
        }
        for schema in ["v1", "v2"] {
            append(schema, "comment");
            // Also after the counter was dropped: the event is older.
            append(schema, "repost");
            append(schema, "share");
        }
        let envelope = json!({
            "event_id": format!("e{}", expected.0), "event_type": "comment", "aggregate_type": "note",
            "aggregate_id": 7, "payload": { "delta": 1, "uid": 9, "schema": "v2" },
        });
        let (status, body) = api.post("/events", &envelope);
        assert_eq!(status, 200, "{body}");
        wait_until_drained(server, PARTITIONS);
        expected = (expected.0 + 3, expected.1 + 2, expected.2 + 2);
    };
    for options in [&[][..], &["--percent", "100"], &["--done"], &["--rollback"]] {
        check(options);
    }
    let found = counts(&api, 7);
    assert_eq!(
        (found["comment"], found["repost"]),
        (expected.0, expected.1)
    );
    // The dead letter of before the migration.
    printed(&run(server, config, &["dead", "retry", "--all"]));
    wait_until_drained(server, PARTITIONS);
    migrate(server, &["--percent", "100"]);
    let found = counts(&api, 7);
    assert_eq!(
        (found["comment"], found["share"]),
        (expected.0, expected.2 + 1)
    );
    assert_eq!(printed(&run(server, config, &["dead", "list"])), "");
    for key in ["tab:v2:note", "cnt:v2:note"] {
        let keys = countint_tests::reply::array(server.client().ok(&format!("KEYS {key}*")));
        assert!(keys.is_empty());
    }
    api.act("like", on_note(7, 1));
    assert_invariants(server, config);
}
