//! Changes of facts: concurrent, retried and removed ones.

use super::{CONFIG, FEW, Setup, pages};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Countd, Settings, printed, run};
use countint_tests::reply;
use serde_json::json;

for_each_store! {
    [module plain cluster]
    the_last_of_many_changes_holds
    a_retried_event_does_not_overwrite_a_later_change
    a_retried_event_does_not_list_a_former_user_of_an_entity
    a_damaged_timeline_delays_its_own_facts_only
    removed_facts_free_their_keys
    a_user_whose_fact_was_just_removed_is_not_listed
}

fn the_last_of_many_changes_holds(store: TestStore) {
    let setup = Setup::new(store, CONFIG);
    for round in 0..20 {
        for note in 1..=6 {
            let op = if round % 2 == 0 { "add" } else { "remove" };
            if note > round % 7 {
                continue;
            }
            let action = json!({ "etype": "note", "eid": note, "uid": 42, "op": op });
            setup.api.act("like", action);
        }
    }
    let (mut ids, _) = setup.timeline("/user/42/like/note", 100);
    ids.sort();
    let liked: Vec<String> = (1..=6)
        .filter(|note| {
            let status = setup
                .api
                .get(&format!("/status/note/{note}?uid=42&metrics=like"));
            setup.api.ok(status)["status"]["like"] == true
        })
        .map(|note| note.to_string())
        .collect();
    assert_eq!(ids, liked);
}

/// The event of a like becomes a dead letter. The like is taken back before the event is retried.
fn a_retried_event_does_not_overwrite_a_later_change(store: TestStore) {
    let setup = Setup::new(store, CONFIG);
    let mut client = setup.store.server.client();
    let form = if setup.store.has_module { "" } else { ":s" };
    let newest = setup
        .store
        .key(&format!("rtl:like:note:42{form}"), "", "42");
    client.ok(&format!("SET {newest} damaged"));
    setup.act("like", 1, 42);
    setup.act("like", 2, 42);
    setup.drain();
    let dead = || printed(&run(&setup.store.server, setup.config, &["dead", "list"]));
    assert!(dead().contains("holds another type"), "{}", dead());
    client.ok(&format!("DEL {newest}"));
    setup.act("unlike", 1, 42);
    setup.drain();
    let retried = run(
        &setup.store.server,
        setup.config,
        &["dead", "retry", "--all"],
    );
    assert!(retried.status.success(), "{retried:?}");
    assert_eq!(setup.timeline("/user/42/like/note", 10).0, ["2"]);
    assert_eq!(dead(), "");
}

/// As above, with a metric whose facts are not kept for users.
fn a_retried_event_does_not_list_a_former_user_of_an_entity(store: TestStore) {
    const ORDERED: &str = "[log]\npartitions = 16\n[consumer]\nlinger_ms = 5\n[metrics.like]\nnature = \"once\"\ncount = \"now\"\norder = \"time\"\n";
    let setup = Setup::new(store, ORDERED);
    let mut client = setup.store.server.client();
    let form = if setup.store.has_module { "" } else { ":s" };
    let newest = format!("wtl:like:note:1{form}");
    let newest = setup.store.key(&newest, "", "note:1");
    client.ok(&format!("SET {newest} damaged"));
    setup.act("like", 1, 42);
    setup.drain();
    let dead = || printed(&run(&setup.store.server, setup.config, &["dead", "list"]));
    assert!(dead().contains("holds another type"), "{}", dead());
    client.ok(&format!("DEL {newest}"));
    setup.act("unlike", 1, 42);
    setup.drain();
    let retry = ["dead", "retry", "--all"];
    let retried = run(&setup.store.server, setup.config, &retry);
    assert!(retried.status.success(), "{retried:?}");
    setup.drain();
    assert_eq!(dead(), "");
    let left = client.ok(&format!("EXISTS {newest}"));
    assert_eq!(
        reply::int(left),
        0,
        "{newest} lists a user whose like was taken back"
    );
}

fn a_damaged_timeline_delays_its_own_facts_only(store: TestStore) {
    let setup = Setup::new(store, CONFIG);
    let mut client = setup.store.server.client();
    let form = if setup.store.has_module { "" } else { ":s" };
    for (part, uid) in [("rtl", "42"), ("rev", "43")] {
        let key = setup
            .store
            .key(&format!("{part}:like:note:{uid}{form}"), "", uid);
        client.ok(&format!("SET {key} damaged"));
    }
    for uid in [42, 43, 44] {
        setup.act("like", 1, uid);
    }
    assert_eq!(setup.timeline("/user/44/like/note", 10).0, ["1"]);
    let dead = printed(&run(&setup.store.server, setup.config, &["dead", "list"]));
    assert_eq!(dead.matches("holds another type").count(), 2, "{dead}");
    assert_eq!(setup.api.get("/user/42/like/note").1["code"], "damaged");
}

fn removed_facts_free_their_keys(store: TestStore) {
    let setup = Setup::new(store, FEW);
    for (metric, uid) in [("like", json!(42)), ("fav", json!("u-1"))] {
        for op in ["", "un"] {
            for note in 0..12 {
                setup.act(&format!("{op}{metric}"), note, uid.clone());
                setup.act(&format!("{op}{metric}"), format!("n{note}"), uid.clone());
                setup.drain();
            }
        }
    }
    let mut client = setup.store.server.client();
    for pattern in ["rtl:*", "rev:*", "wtl:*"] {
        let keys = reply::array(client.ok(&format!("KEYS {pattern}")));
        assert!(keys.is_empty(), "{keys:?}");
    }
}

fn a_user_whose_fact_was_just_removed_is_not_listed(store: TestStore) {
    let setup = Setup::new(store, FEW);
    for uid in [42, 43, 44] {
        setup.act("like", 1, uid);
    }
    setup.drain();
    let Setup { store, countd, .. } = setup;
    drop(countd);
    // No consumer runs, so the removal is not committed.
    let (command, config) = ("serve", FEW);
    let countd = Countd::with(&store.server, &Settings { command, config });
    let api = countd.api();
    api.act("unlike", json!({ "etype": "note", "eid": 1, "uid": 43 }));
    for limit in [1, 2, 100] {
        let users = pages(&api, "/who/like/note/1", "users", limit);
        assert_eq!(users, ["44", "42"], "{limit}");
    }
}
