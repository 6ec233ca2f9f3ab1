//! Days are compacted, and configurations change.

use super::setup::*;
use crate::support::Countd;
use crate::support::Settings;
use crate::support::printed;
use crate::support::run;
use crate::support::stores::TestStore;
use crate::support::stores::move_days_back;
use crate::support::stores::wait_until_compacted;
use crate::support::wait_until_drained;
use countint_tests::Server;
use countint_tests::reply;
use serde_json::json;

pub fn facts_stay_unique_when_days_are_compacted(store: TestStore) {
    let countd = start(&store.server);
    let api = countd.api();
    let users = [
        "7",
        "18446744073709551615",
        "0",
        "18446744073709551616",
        "007",
        "alice",
    ];
    let uuid = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
    for uid in users.into_iter().chain([uuid]) {
        assert_eq!(api.act("daily", on(1, uid))["changed"], true, "{uid}");
        api.act("join", on(1, uid));
    }
    move_days_back(&store, PARTITIONS);
    let again = |count: u64| {
        for uid in users.into_iter().chain([uuid]) {
            let answer = api.act("daily", on(1, uid));
            assert_eq!(answer, json!({ "changed": false, "count": count }), "{uid}");
            assert!(has_fact(&api, "daily", 1, uid) && !has_fact(&api, "daily", 2, uid));
        }
    };
    again(7);
    wait_until_compacted(&store, PARTITIONS);
    again(7);
    let mut client = store.server.client();
    let key = |part| store.key("s:daily:note:1:", part, "note:1");
    let days = client.ok(&format!("EXISTS {}", key("days")));
    assert_eq!(reply::int(days), 0, "no day has a Set");
    assert_eq!(
        reply::int(client.ok(&format!("SCARD {}", key("old")))),
        4,
        "non-numeric ids"
    );
    // The users are removed from the compacted facts and added again, which makes them facts of today.
    for uid in [uuid, "7"] {
        assert_eq!(
            api.act("undaily", on(1, uid)),
            json!({ "changed": true, "count": 6 })
        );
        assert!(!has_fact(&api, "daily", 1, uid));
        assert_eq!(api.act("undaily", on(1, uid))["changed"], false);
        assert_eq!(
            api.act("daily", on(1, uid)),
            json!({ "changed": true, "count": 7 })
        );
    }
    // The last user of a day is removed, so its Set is empty.
    api.act("undaily", on(1, uuid));
    api.act("undaily", on(1, "7"));
    assert_eq!(reply::int(client.ok(&format!("EXISTS {}", key("days")))), 0);
    assert_eq!(count(&api, "daily", 1), 5);
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(count(&api, "join", 1), 7, "counted by the consumer");
}

/// The configuration of one metric with a kind of fact store.
fn config_of(facts: &str, shards: u16) -> String {
    format!(
        "[facts]\nshards = {shards}\ncompaction_interval_seconds = 1\ndays = 1\n[entities]\nnote = \"v1\"\n\
         [metrics.like]\nnature = \"once\"\ncount = \"now\"\nfacts = \"{facts}\"\n"
    )
}

#[test]
fn fact_store_is_immutable_after_creation() {
    let server = Server::start();
    let mut countd = Countd::start(&server, &config_of("rbm", 5));
    countd.api().act("like", on(1, 42));
    countd.stop();
    let check = |facts: &str, shards| run(&server, &config_of(facts, shards), &["check"]);
    for other in ["bitmap", "sharded"] {
        let output = check(other, 5);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && errors.contains("metrics.like.facts"),
            "{errors}"
        );
    }
    // Days are compacted into id sets.
    for facts in ["daily", "rbm"] {
        printed(&check(facts, 5));
    }
    let config = config_of("daily", 5);
    let countd = Countd::with(
        &server,
        &Settings {
            command: "all",
            config: &config,
        },
    );
    assert_eq!(
        countd.api().act("like", on(1, 42)),
        json!({ "changed": false, "count": 1 })
    );
    assert_eq!(countd.api().act("like", on(1, 43))["count"], 2);
    assert!(!check("rbm", 5).status.success());
    let other = Server::start();
    Countd::start(&other, &config_of("sharded", 5));
    let output = run(&other, &config_of("sharded", 6), &["check"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("facts.shards"),
        "{errors}"
    );
}
