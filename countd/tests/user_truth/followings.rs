//! Followings and posts: the number of facts that are kept for a user. Facts of users: those of entities, transposed.

use super::{CONFIG, PARTITIONS, audit, field, forge};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::workload::StopOnDrop;
use crate::support::{Api, Countd, metric, wait_until_drained};
use countint_tests::{Client, reply, wait_until};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

for_each_store! {
    [module objects plain cluster cluster_objects]
    forged_followings_and_posts_are_corrected_and_audited
    a_lost_reverse_fact_returns
    a_forged_reverse_fact_goes
    facts_of_all_stores_are_compared
    facts_of_users_are_exact_while_they_change
}

/// The suffix of the keys of a user.
fn tag(store: &TestStore, uid: &str) -> String {
    match store.is_cluster() {
        true => format!(":{{{}}}", TestStore::partition(uid, PARTITIONS)),
        false => String::new(),
    }
}

/// Removes a fact from the timeline of a user, in which it is one of the newest.
fn lose(store: &TestStore, client: &mut Client, of: (&str, &str, &str), eid: &str) {
    let ((metric, etype, uid), tag) = (of, tag(store, of.2));
    let is_row = store.has_module && eid.bytes().all(|byte| byte.is_ascii_digit());
    let removed = match is_row {
        true => client.call(&["CTAB.DEL", &format!("rtl:{metric}:{etype}:{uid}{tag}"), eid]),
        false => client.call(&["ZREM", &format!("rtl:{metric}:{etype}:{uid}:s{tag}"), eid]),
    };
    assert_eq!(removed, countint_tests::Value::Int(1), "{of:?} {eid}");
}

fn counter(api: &Api, uid: &str, counter: &str) -> u64 {
    let path = format!("/relation/counter?uid={uid}");
    let count = &api.ok(api.get(&path))["counts"][counter];
    count.as_u64().expect("a number")
}

/// The facts of a user, in order of their IDs.
fn timeline(api: &Api, (metric, etype, uid): (&str, &str, &str)) -> Vec<String> {
    let page = api.ok(api.get(&format!("/user/{uid}/{metric}/{etype}")));
    let items = page["items"].as_array().expect("a page").clone();
    let ids = items
        .iter()
        .map(|item| item["eid"].as_str().expect("an ID"));
    let mut ids: Vec<String> = ids.map(str::to_owned).collect();
    ids.sort();
    ids
}

/// Waits until a sweep over facts that has not begun yet ends.
fn wait_for_sweep(store: &TestStore) {
    let mut client = store.server.client();
    let mut ended = || -> u64 {
        match client.call(&["HGET", "countd:transposition", "ended"]) {
            countint_tests::Value::Nil => 0,
            ended => reply::text(ended).parse().expect("a number"),
        }
    };
    let before = ended();
    wait_until("sweeps end", || ended() >= before + 2);
}

/// The corrections: ID, metric, difference and source of each, in order.
fn corrections(store: &TestStore) -> Vec<[String; 4]> {
    let mut found: Vec<[String; 4]> = audit(store, &mut store.server.client())
        .iter()
        .map(|entry| {
            ["eid", "metric", "difference", "source"].map(|name| field(entry, name).to_owned())
        })
        .collect();
    found.sort();
    found
}

fn texts(corrections: &[[&str; 4]]) -> Vec<[String; 4]> {
    let corrections = corrections.iter();
    corrections
        .map(|fields| fields.map(str::to_owned))
        .collect()
}

fn follow_some(api: &Api) {
    for uid in ["1", "2", "a-3"] {
        for followed in ["7", "8", "a-9"] {
            api.act("follow", json!({ "eid": followed, "uid": uid }));
        }
    }
}

/// Followings are stored in a form that permits all IDs.
fn config() -> String {
    let users = "[{ counter = \"followings\", of = \"actor\" }, { counter = \"followers\", of = \"target\" }]";
    format!(
        "{CONFIG}[metrics.follow]\nnature = \"once\"\ncount = \"never\"\nfacts = \"sharded\"\nreverse = true\nentities = [\"user\"]\nusers = {users}\n[metrics.publish]\nnature = \"once\"\ncount = \"never\"\nreverse = true\nusers = [{{ counter = \"posts\", of = \"actor\" }}]\n"
    )
}

fn forged_followings_and_posts_are_corrected_and_audited(store: TestStore) {
    let countd = Countd::start(&store.server, &config());
    let api = countd.api();
    follow_some(&api);
    for note in ["1", "2"] {
        api.act(
            "publish",
            json!({ "etype": "note", "eid": note, "uid": "1" }),
        );
    }
    wait_until_drained(&store.server, PARTITIONS);
    for (uid, idx, forged) in [
        ("1", 0, 10),
        ("2", 0, 1),
        ("a-3", 0, 1),
        ("9", 0, 5),
        ("1", 2, 7),
    ] {
        forge(&store, uid, idx, forged);
    }
    let found = || ["1", "2", "a-3", "9"].map(|uid| counter(&api, uid, "followings"));
    wait_until("followings are corrected", || found() == [3, 3, 3, 0]);
    wait_until("posts are corrected", || counter(&api, "1", "posts") == 2);
    wait_for_sweep(&store);
    assert_eq!(
        corrections(&store),
        texts(&[
            ["1", "followings", "-7", "user"],
            ["1", "posts", "-5", "user"],
            ["2", "followings", "2", "user"],
            ["9", "followings", "-5", "user"],
            ["a-3", "followings", "2", "user"],
        ])
    );
    assert_invariants(&store.server, &config());
}

/// A lost fact of a user does not lower the counter: the sweep restores the fact.
fn a_lost_reverse_fact_returns(store: TestStore) {
    let countd = Countd::start(&store.server, &config());
    let api = countd.api();
    follow_some(&api);
    wait_until_drained(&store.server, PARTITIONS);
    let mut client = store.server.client();
    lose(&store, &mut client, ("follow", "user", "1"), "7");
    lose(&store, &mut client, ("follow", "user", "a-3"), "a-9");
    let complete = ["7", "8", "a-9"];
    wait_until("the facts are restored", || {
        ["1", "a-3"]
            .iter()
            .all(|uid| timeline(&api, ("follow", "user", uid)) == complete)
    });
    wait_for_sweep(&store);
    let expected = texts(&[
        ["1", "follow", "1", "reverse"],
        ["a-3", "follow", "1", "reverse"],
    ]);
    assert_eq!(corrections(&store), expected);
    for uid in ["1", "2", "a-3"] {
        assert_eq!(counter(&api, uid, "followings"), 3, "followings of {uid}");
    }
    assert_invariants(&store.server, &config());
}

fn a_forged_reverse_fact_goes(store: TestStore) {
    let countd = Countd::start(&store.server, &config());
    let api = countd.api();
    follow_some(&api);
    wait_until_drained(&store.server, PARTITIONS);
    let mut client = store.server.client();
    let tag = tag(&store, "1");
    match store.has_module {
        true => {
            let (newest, older) = (
                format!("rtl:follow:user:1{tag}"),
                format!("rev:follow:user:1{tag}"),
            );
            client.call(&["CTAB.SET", &newest, "77", "LEN", "1", "0", "5"]);
            client.call(&["RBM.ADD", &older, "78"]);
        }
        false => {
            client.call(&["ZADD", &format!("rtl:follow:user:1:s{tag}"), "5", "77"]);
            client.call(&["SADD", &format!("rev:follow:user:1:s{tag}"), "78"]);
        }
    }
    wait_until("the forged facts are removed", || {
        timeline(&api, ("follow", "user", "1")) == ["7", "8", "a-9"]
    });
    wait_for_sweep(&store);
    let expected = texts(&[
        ["1", "follow", "-1", "reverse"],
        ["1", "follow", "-1", "reverse"],
    ]);
    assert_eq!(corrections(&store), expected);
    assert_eq!(counter(&api, "1", "followings"), 3);
    assert_invariants(&store.server, &config());
}

fn facts_of_all_stores_are_compared(store: TestStore) {
    const STORES: [(&str, &str); 4] = [
        ("like", "rbm"),
        ("fav", "bitmap"),
        ("pin", "daily"),
        ("save", "sharded"),
    ];
    let metrics = STORES.map(|(metric, facts)| {
        format!("[metrics.{metric}]\nnature = \"once\"\ncount = \"never\"\nfacts = \"{facts}\"\nreverse = true\n")
    });
    let config = format!("{CONFIG}{}", metrics.concat());
    let countd = Countd::start(&store.server, &config);
    let api = countd.api();
    for (metric, _) in STORES {
        for (note, uid) in [("5", "1"), ("a-5", "1"), ("5", "2")] {
            api.act(metric, json!({ "etype": "note", "eid": note, "uid": uid }));
        }
    }
    wait_until_drained(&store.server, PARTITIONS);
    wait_for_sweep(&store);
    assert_eq!(corrections(&store), texts(&[]));
    let mut client = store.server.client();
    for (metric, _) in STORES {
        lose(&store, &mut client, (metric, "note", "1"), "5");
        lose(&store, &mut client, (metric, "note", "1"), "a-5");
    }
    for (metric, _) in STORES {
        wait_until("the facts are restored", || {
            timeline(&api, (metric, "note", "1")) == ["5", "a-5"]
        });
    }
    wait_for_sweep(&store);
    assert_eq!(corrections(&store).len(), 2 * STORES.len());
    assert_invariants(&store.server, &config);
}

/// Users follow and unfollow all the time, and processes are killed. Nothing but what is forged is corrected, and that by exactly what was forged.
fn facts_of_users_are_exact_while_they_change(store: TestStore) {
    let config = config();
    let countd = Countd::start(&store.server, &config);
    let mut second = Countd::start(&store.server, &config);
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        for client in 0..4_u64 {
            let (api, is_done) = (countd.api(), &is_done);
            scope.spawn(move || {
                for step in 0_u64.. {
                    let uid = 1 + (client + step) % 5;
                    let action = json!({ "eid": 100 + client * 10 + step / 5 % 10, "uid": uid });
                    let metric = if step / 50 % 2 == 0 {
                        "follow"
                    } else {
                        "unfollow"
                    };
                    api.act(metric, action);
                    if is_done.load(Relaxed) && step % 100 == 99 {
                        break;
                    }
                }
            });
        }
        let _done = StopOnDrop(&is_done);
        wait_for_sweep(&store);
        second.kill();
        second.launch();
        wait_for_sweep(&store);
        assert_eq!(corrections(&store), texts(&[]));
        forge(&store, "6", 0, 1_000);
        wait_for_sweep(&store);
        second.kill();
        second.launch();
        wait_for_sweep(&store);
    });
    wait_until_drained(&store.server, PARTITIONS);
    wait_for_sweep(&store);
    wait_until("the forged counter is corrected", || {
        counter(&countd.api(), "6", "followings") == 0
    });
    assert_eq!(
        corrections(&store),
        texts(&[["6", "followings", "-1000", "user"]])
    );
    for uid in ["1", "2", "3", "4", "5"] {
        let followings = counter(&countd.api(), uid, "followings");
        let listed = timeline(&countd.api(), ("follow", "user", uid)).len() as u64;
        assert_eq!(followings, listed, "followings of {uid}");
    }
    let compared = metric(&countd.api(), "countd_facts_compared_total")
        + metric(&second.api(), "countd_facts_compared_total");
    assert!(compared > 0, "facts were compared");
    assert_invariants(&store.server, &config);
}
