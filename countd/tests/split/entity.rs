//! What else concerns an entity that is split: reads of many, erasure, reconciliation, idempotency keys, and restarts.

use super::{AUTHOR, CONFIG, assert_likes, hot, liked_and_split, listed, merge};
use crate::console::browser::Browser;
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::workload::StopOnDrop;
use crate::support::{Api, Countd, on_note, printed, run, wait_until_drained, with};
use countint_tests::{reply, wait_until};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

for_each_store! {
    [module cluster]
    a_split_entity_is_erased
    counters_of_shards_are_reconciled
    lost_counters_of_shards_are_rebuilt_when_they_are_read
    the_lost_counter_of_the_base_is_rebuilt
    the_counter_of_the_base_is_reconciled
    a_split_entity_is_read_with_others
}

/// Likes of users 1 to 10 at the base, and of 11 to 40 at shards.
struct Setup {
    store: TestStore,
    countd: Countd,
    api: Api,
}

impl Setup {
    fn new(store: TestStore) -> Setup {
        let (countd, api) = liked_and_split(&store.server, 1..=10, 11..=40);
        Setup { store, countd, api }
    }

    fn drain(&self) {
        wait_until_drained(&self.store.server, 16);
    }

    /// Deletes, and waits for the job.
    fn erase(&self, path: &str) {
        let (status, job) = self.api.delete(path);
        assert_eq!(status, 202, "{job}");
        let id = job["id"].as_str().expect("an ID").to_owned();
        wait_until("the job has ended", || {
            self.api.ok(self.api.get(&format!("/jobs/{id}")))["state"] == "done"
        });
        self.drain();
    }

    /// Takes back a like of the base: a fact that does not count. Returns the table of its counters, and the users who still like the note.
    fn unlike_at_base(&self) -> (String, BTreeSet<u64>) {
        self.api.act("unlike", on_note(7, 2));
        self.drain();
        let table = self.store.counters("v1", "note:7", 16);
        (table, (1..=40).filter(|user| *user != 2).collect())
    }

    /// The key of the state of the base.
    fn state(&self) -> String {
        let found = self.store.server.client().ok("KEYS split:note:7~*");
        let state = reply::array(found).into_iter().map(reply::text).next();
        state.expect("one")
    }

    /// The keys with counters of shards.
    fn counters(&self) -> Vec<String> {
        let found = self.store.server.client().ok("KEYS cnt:*note:7~*");
        reply::array(found).into_iter().map(reply::text).collect()
    }
}

fn a_split_entity_is_erased(store: TestStore) {
    let setup = Setup::new(store);
    setup.drain();
    setup.erase("/entity/note/7");
    assert_eq!(hot(&setup.store.server, CONFIG, &["list"]), json!([]));
    assert_eq!(setup.api.counts(7)["like"], 0);
    assert_eq!(listed(&setup.api), BTreeSet::new());
    assert_eq!(setup.counters(), Vec::<String>::new());
    for user in [1, 11, 40] {
        let timeline = setup
            .api
            .ok(setup.api.get(&format!("/user/{user}/like/note")));
        assert_eq!(timeline["items"], json!([]), "{user}");
    }
    assert_eq!(setup.api.user(AUTHOR)["likesReceived"], 0);
    // It can be used again, as soon as the process knows that it is whole.
    wait_until("the note is liked", || {
        let (status, liked) = setup.api.post("/action/like", &on_note(7, 11));
        assert!(status == 200 || status == 503, "{liked}");
        status == 200
    });
    assert_eq!(setup.api.counts(7)["like"], 1);
    assert_invariants(&setup.store.server, CONFIG);
}

/// How many counters of likes a reconciliation of all entities corrects.
fn corrected(setup: &Setup) -> Json {
    let arguments = ["reconcile", "--all", "--json"];
    let report = printed(&run(&setup.store.server, CONFIG, &arguments));
    let report: Json = serde_json::from_str(&report).expect("a report");
    setup.drain();
    report["metrics"]["like"]["corrected"].clone()
}

fn counters_of_shards_are_reconciled(store: TestStore) {
    let mut setup = Setup::new(store);
    setup.drain();
    let counters = setup.counters();
    assert!(counters.len() > 1, "{counters:?}");
    // The index of likes in the schema is 1.
    let mut client = setup.store.server.client();
    client.ok(&format!("CINT.SET {} 1 500", counters[0]));
    assert!(setup.api.counts(7)["like"].as_u64() >= Some(500));
    assert_eq!(corrected(&setup), 1);
    let all: BTreeSet<u64> = (1..=40).collect();
    assert_likes(&setup.api, &all);
    // Of a process that has not seen the split.
    setup.countd.kill();
    setup.countd.launch();
    assert_likes(&setup.api, &all);
    merge(&setup.store.server, CONFIG);
    setup.drain();
    assert_likes(&setup.api, &all);
    assert_invariants(&setup.store.server, CONFIG);
}

fn lost_counters_of_shards_are_rebuilt_when_they_are_read(store: TestStore) {
    let setup = Setup::new(store);
    setup.drain();
    let mut client = setup.store.server.client();
    let all: BTreeSet<u64> = (1..=40).collect();
    let counters = setup.counters();
    assert_eq!(counters.len(), 4, "{counters:?}");
    for key in &counters {
        client.ok(&format!("DEL {key}"));
        assert_likes(&setup.api, &all);
    }
    let browser = Browser::new(setup.countd.port());
    wait_until("the process knows that the entity is split", || {
        let page = browser.page("/admin/entity?etype=note&eid=7").text;
        page.contains("<th scope=\"row\">like</th><td class=\"right\">40</td>")
    });
    // A page, of which other counters are not lost.
    client.ok(&format!("DEL {}", counters[0]));
    let items = json!([{ "etype": "note", "eid": 8 }, { "etype": "note", "eid": 7 }]);
    let request = json!({ "uid": 1, "items": items, "metrics": ["like"] });
    let feed = setup.api.ok(setup.api.post("/feed", &request));
    assert_eq!(feed["items"][1]["counts"]["like"], 40, "{feed}");
    // The response to an action has the total of all shards.
    for key in &counters {
        client.ok(&format!("DEL {key}"));
    }
    wait_until("the answer has all likes", || {
        setup.api.act("unlike", on_note(7, 11));
        setup.api.act("like", on_note(7, 11))["count"] == 40
    });
    assert_likes(&setup.api, &all);
    // Nothing of the shards comes back when they are read in a merge and after it.
    for key in &counters {
        client.ok(&format!("DEL {key}"));
    }
    assert_eq!(setup.api.counts(7)["like"], 40);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(setup.api.counts(7)["like"], 40);
            }
        });
        let stopping = StopOnDrop(&stop);
        merge(&setup.store.server, CONFIG);
        drop(stopping);
    });
    setup.drain();
    assert_likes(&setup.api, &all);
    assert_eq!(setup.counters(), Vec::<String>::new());
    assert_invariants(&setup.store.server, CONFIG);
}

fn the_lost_counter_of_the_base_is_rebuilt(store: TestStore) {
    let setup = Setup::new(store);
    let (table, all) = setup.unlike_at_base();
    let mut client = setup.store.server.client();
    for action in [None, Some("like"), Some("unlike"), None] {
        client.ok(&format!("CTAB.DEL {table} 7"));
        // By the next action of a user whose home is the base, or by a read.
        if let Some(action) = action {
            setup.api.act(action, on_note(7, 3));
            if action == "unlike" {
                setup.api.act("like", on_note(7, 3));
            }
        }
        assert_likes(&setup.api, &all);
    }
    // As in the time between the steps of a split that freeze the facts and open the shards.
    let state = setup.state();
    let open = reply::text(client.ok(&format!("HGET {state} open")));
    client.ok(&format!("HDEL {state} open"));
    client.ok(&format!("CTAB.DEL {table} 7"));
    setup.api.act("unlike", on_note(7, 3));
    assert_eq!(setup.api.counts(7)["like"], 38);
    client.ok(&format!("HSET {state} open {open}"));
    setup.api.act("like", on_note(7, 3));
    assert_likes(&setup.api, &all);
    merge(&setup.store.server, CONFIG);
    setup.drain();
    assert_likes(&setup.api, &all);
    assert_invariants(&setup.store.server, CONFIG);
}

fn the_counter_of_the_base_is_reconciled(store: TestStore) {
    let setup = Setup::new(store);
    let (table, all) = setup.unlike_at_base();
    let mut client = setup.store.server.client();
    // The index of likes in the schema is 1.
    for (delta, damaged) in [(490, 529), (-5, 34)] {
        client.ok(&format!("CTAB.INCRBY {table} 7 1 {delta}"));
        assert_eq!(setup.api.counts(7)["like"], damaged);
        assert_eq!(corrected(&setup), 1, "{delta}");
        assert_likes(&setup.api, &all);
    }
    // A merge adds the facts of the shards to the base before their counts: the counter is not compared then.
    let state = setup.state();
    client.ok(&format!("CTAB.INCRBY {table} 7 1 3"));
    client.ok(&format!("HSET {state} merging 1"));
    assert_eq!(corrected(&setup), 0);
    client.ok(&format!("HDEL {state} merging"));
    assert_eq!(corrected(&setup), 1);
    assert_likes(&setup.api, &all);
    merge(&setup.store.server, CONFIG);
    setup.drain();
    assert_likes(&setup.api, &all);
    assert_eq!(corrected(&setup), 0);
    assert_invariants(&setup.store.server, CONFIG);
}

fn a_split_entity_is_read_with_others(store: TestStore) {
    let Setup {
        store, api, countd, ..
    } = Setup::new(store);
    for user in [5, 25] {
        api.act("like", on_note(8, user));
    }
    let items = json!([
        { "etype": "note", "eid": 7 },
        { "etype": "note", "eid": 8 },
        { "etype": "note", "eid": 7 },
    ]);
    // A user of the base, one of a shard, and one without a like.
    for (user, likes) in [(5, true), (25, true), (50, false)] {
        let request = json!({ "uid": user, "items": items, "metrics": ["like"] });
        let feed = api.ok(api.post("/feed", &request));
        let found: Vec<(u64, bool)> = feed["items"]
            .as_array()
            .expect("items")
            .iter()
            .map(|item| {
                let count = item["counts"]["like"].as_u64().expect("a count");
                (count, item["status"]["like"].as_bool().expect("a status"))
            })
            .collect();
        assert_eq!(found, [(40, likes), (2, likes), (40, likes)], "{feed}");
    }
    // The answer to the first attempt is repeated, at the base and at a shard.
    for user in [2, 60] {
        let action = with(on_note(7, user), json!({ "idempotencyKey": "k" }));
        let first = api.act("unlike", action.clone());
        let again = api.act("unlike", action);
        assert_eq!(again["changed"], first["changed"], "{user}");
        assert_eq!(again["count"], api.counts(7)["like"], "{user}");
    }
    let like = with(on_note(7, 70), json!({ "idempotencyKey": "k" }));
    let first = api.act("like", like.clone());
    assert_eq!(first["changed"], true);
    api.act("unlike", on_note(7, 70));
    assert_eq!(api.act("like", like)["changed"], true);
    assert_eq!(api.counts(7)["like"], 39);
    wait_until_drained(&store.server, 16);
    drop(countd);
}
