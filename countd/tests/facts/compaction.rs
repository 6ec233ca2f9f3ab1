//! Days pass, and configurations change.

use super::*;
use crate::support::stores::move_days_back;
use crate::support::wait_until_drained;

pub fn nobody_does_it_twice_when_days_pass(world: TestStore) {
    let countd = start(&world.server);
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
    move_days_back(&world, PARTITIONS);
    let again = |count: u64| {
        for uid in users.into_iter().chain([uuid]) {
            let answer = api.act("daily", on(1, uid));
            assert_eq!(answer, json!({ "changed": false, "count": count }), "{uid}");
            assert!(is_there(&api, "daily", 1, uid) && !is_there(&api, "daily", 2, uid));
        }
    };
    again(7);
    wait_until_compacted(&world, PARTITIONS);
    again(7);
    let mut client = world.server.client();
    let key = |part| world.key("s:daily:note:1:", part, "note:1");
    let days = client.ok(&format!("EXISTS {}", key("days")));
    assert_eq!(reply::int(days), 0, "no day has a Set");
    assert_eq!(
        reply::int(client.ok(&format!("SCARD {}", key("old")))),
        4,
        "what is no number"
    );
    // Taken back out of what is folded, and done again: now it is of today.
    for uid in [uuid, "7"] {
        assert_eq!(
            api.act("undaily", on(1, uid)),
            json!({ "changed": true, "count": 6 })
        );
        assert!(!is_there(&api, "daily", 1, uid));
        assert_eq!(api.act("undaily", on(1, uid))["changed"], false);
        assert_eq!(
            api.act("daily", on(1, uid)),
            json!({ "changed": true, "count": 7 })
        );
    }
    // Taken back from a day, whose Set it leaves empty.
    api.act("undaily", on(1, uuid));
    api.act("undaily", on(1, "7"));
    assert_eq!(reply::int(client.ok(&format!("EXISTS {}", key("days")))), 0);
    assert_eq!(count(&api, "daily", 1), 5);
    wait_until_drained(&world.server, PARTITIONS);
    assert_eq!(count(&api, "join", 1), 7, "counted by the consumer");
}

/// One metric, whose facts are kept in some way.
fn of_way(facts: &str, shards: u16) -> String {
    format!(
        "[facts]\nshards = {shards}\ncompaction_interval_seconds = 1\ndays = 1\n[entities]\nnote = \"v1\"\n\
         [metrics.like]\nnature = \"once\"\ncount = \"now\"\nfacts = \"{facts}\"\n"
    )
}

#[test]
fn facts_stay_where_they_were_begun() {
    let server = Server::start();
    let mut countd = Countd::start(&server, &of_way("rbm", 5));
    countd.api().act("like", on(1, 42));
    countd.stop();
    let check = |facts: &str, shards| run(&server, &of_way(facts, shards), &["check"]);
    for other in ["bitmap", "sharded"] {
        let output = check(other, 5);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && errors.contains("metrics.like.facts"),
            "{errors}"
        );
    }
    // Sets of ids are what days are folded into.
    for facts in ["daily", "rbm"] {
        printed(&check(facts, 5));
    }
    let config = of_way("daily", 5);
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
    Countd::start(&other, &of_way("sharded", 5));
    let output = run(&other, &of_way("sharded", 6), &["check"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("facts.shards"),
        "{errors}"
    );
}
