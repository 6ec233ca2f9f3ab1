//! Facts that were recorded before their metric was kept for users.

use super::{CONFIG, FEW, PARTITIONS, Setup, assert_lists_facts};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::workload::StopOnDrop;
use crate::support::{Api, Countd, printed, run, wait_until_drained};
use countint_tests::reply;
use serde_json::{Value as Json, json};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

for_each_store! {
    [module plain cluster]
    a_metric_that_was_not_kept_from_the_start_is_refused
    earlier_facts_are_added_while_clients_act
    a_fact_that_is_read_again_is_what_holds
}

/// Data that a version without timelines created, or that was begun without them.
fn a_metric_that_was_not_kept_from_the_start_is_refused(store: TestStore) {
    let without = FEW.replace("reverse = true\n", "");
    drop(Countd::start(&store.server, &without));
    let setup = Setup::new(store, FEW);
    setup.act("like", 1, 42);
    setup.drain();
    let (status, problem) = setup.api.get("/user/42/like/note");
    assert_eq!((status, &problem["code"]), (422, &json!("no_reverse")));
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("countd reverse backfill like"), "{detail}");
    let checked = printed(&run(&setup.store.server, setup.config, &["check"]));
    assert!(
        checked.contains("note: facts of like are not kept for users"),
        "{checked}"
    );
    let mut client = setup.store.server.client();
    let keys = reply::array(client.ok("KEYS r*:like:note:42*"));
    assert!(keys.is_empty(), "{keys:?}");
    drop(setup.countd);
}

/// The facts of each fact store, recorded without `reverse`, are added while others are recorded and removed.
fn earlier_facts_are_added_while_clients_act(store: TestStore) {
    const STORES: [(&str, &str); 4] = [
        ("like", "rbm"),
        ("fav", "bitmap"),
        ("pin", "daily"),
        ("save", "sharded"),
    ];
    let config = |reverse: &str| {
        let metrics = STORES.map(|(metric, facts)| {
            format!(
                "[metrics.{metric}]\nnature = \"once\"\ncount = \"never\"\nfacts = \"{facts}\"\n{reverse}"
            )
        });
        format!(
            "{CONFIG}[limits]\nuser = {{ per_second = 0 }}\n{}",
            metrics.concat()
        )
    };
    let users = 20;
    let without = Countd::start(&store.server, &config(""));
    let api = without.api();
    let act = |api: &Api, metric: &str, note: u64, uid: u64, op: &str| {
        let action = json!({ "etype": "note", "eid": note, "uid": uid, "op": op });
        api.act(metric, action);
    };
    for (metric, _) in STORES {
        for note in 0..30 {
            act(&api, metric, note, 1 + note % users, "add");
        }
    }
    drop(without);
    let config = config("reverse = true\n");
    let countd = Countd::start(&store.server, &config);
    let api = countd.api();
    assert_eq!(api.get("/user/1/like/note").1["code"], "no_reverse");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stopping = StopOnDrop(&stop);
        // Toggles earlier facts, and adds and removes others.
        let toggling = scope.spawn(|| {
            for round in 0.. {
                for (metric, _) in STORES {
                    let note = round * 7 % 40;
                    let op = if round % 3 == 0 { "add" } else { "remove" };
                    act(&api, metric, note, 1 + note % users, op);
                }
                if stop.load(Relaxed) {
                    return;
                }
            }
        });
        for (metric, _) in STORES {
            let arguments = ["reverse", "backfill", metric, "--grace", "0"];
            let output = run(&store.server, &config, &arguments);
            assert!(output.status.success(), "{output:?}");
            assert_eq!(api.get(&format!("/user/1/{metric}/note")).0, 200);
        }
        drop(stopping);
        toggling.join().expect("the actions");
    });
    wait_until_drained(&store.server, PARTITIONS);
    for (metric, _) in STORES {
        for uid in 1..=users {
            assert_lists_facts(&api, uid, metric, 40);
        }
    }
    assert_eq!(printed(&run(&store.server, &config, &["dead", "list"])), "");
    // Nothing is left to do.
    let again = run(
        &store.server,
        &config,
        &["reverse", "backfill", "like", "--grace", "0"],
    );
    assert!(again.status.success(), "{again:?}");
    let refused = run(&store.server, &config, &["reverse", "backfill", "nope"]);
    assert!(!refused.status.success());
}

fn a_fact_that_is_read_again_is_what_holds(store: TestStore) {
    let setup = Setup::new(store, CONFIG);
    for uid in [42, 43] {
        setup.act("like", 1, uid);
    }
    setup.act("unlike", 1, 42);
    setup.drain();
    let mut client = setup.store.server.client();
    let form = if setup.store.has_module { "" } else { ":s" };
    let lost = setup
        .store
        .key(&format!("rtl:like:note:43{form}"), "", "43");
    assert_eq!(reply::int(client.ok(&format!("DEL {lost}"))), 1);
    let mut append = |of: &str, field: &str, payload: Json| {
        let log = setup.store.log(TestStore::partition(of, PARTITIONS));
        client.call(&["XADD", &log, "0-*", field, &payload.to_string()]);
    };
    let reread =
        json!({ "metric": "like", "etype": "note", "eid": "1", "uids": ["42", "43", "44"] });
    append("note:1", "b", reread);
    // Changes that were retried.
    for (uid, exists) in [("42", 1), ("43", 0)] {
        let revs = json!({ "revs": [[uid, "like", "note", "1", exists, 1_700_000_000_000_u64]] });
        append(uid, "d", revs);
    }
    assert_eq!(
        setup.timeline("/user/43/like/note", 10),
        (vec!["1".to_owned()], 0)
    );
    for uid in [42, 44] {
        assert_eq!(
            setup.timeline(&format!("/user/{uid}/like/note"), 10).0,
            [""; 0]
        );
    }
}
