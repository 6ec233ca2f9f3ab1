//! Rankings of existing data, lost keys, other definitions, and erased entities.

use super::{
    PARTITIONS, RANKING, act, assert_invariants, config, items, on, page, wait_until_right,
};
use crate::days::setup::CONFIG;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::workload::{Random, StopOnDrop};
use crate::support::{Countd, Settings, wait_until_drained};
use countint_tests::{reply, wait_until};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

for_each_store! {
    [module plain cluster]
    a_ranking_of_existing_data_fills_itself_and_is_deleted
    a_ranking_is_refilled_from_days
    an_erased_entity_leaves_the_ranking
}

fn keys(store: &TestStore, pattern: &str) -> Vec<String> {
    let found = reply::array(store.server.client().call(&["KEYS", pattern]));
    found.into_iter().map(reply::text).collect()
}

fn a_ranking_of_existing_data_fills_itself_and_is_deleted(store: TestStore) {
    let entities = RANKING.split("[rank]").next().expect("a part");
    let without = format!("{CONFIG}{entities}");
    let mut countd = Countd::start(&store.server, &without);
    let mut random = Random(5);
    for _ in 0..3 {
        act(&countd.api(), &mut random, 150);
    }
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(countd.api().get("/rank/hot?etype=note").0, 404);
    countd.stop();
    let config = config();
    let settings = Settings {
        command: "all",
        config: &config,
    };
    // The pass is continued by the next process.
    let mut countd = Countd::with(&store.server, &settings);
    for pause in [520, 530, 560, 600] {
        thread::sleep(std::time::Duration::from_millis(pause));
        countd.kill();
        countd.launch();
    }
    let api = countd.api();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stopping = StopOnDrop(&stop);
        scope.spawn(|| {
            let mut random = Random(6);
            while !stop.load(Relaxed) {
                act(&api, &mut random, 20);
            }
        });
        wait_until("the ranking is filled", || page(&api, "").0 == 200);
        drop(stopping);
    });
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_right(&api);
    // Other weights are another ranking.
    countd.stop();
    let other = config.replace("view = 1", "view = 1000");
    let settings = Settings {
        command: "all",
        config: &other,
    };
    let mut countd = Countd::with(&store.server, &settings);
    let api = countd.api();
    wait_until("the ranking has the new weights", || {
        let (status, page) = page(&api, "");
        status == 200
            && items(&page)
                .first()
                .is_some_and(|(_, score)| *score >= 1_000.0)
    });
    countd.stop();
    assert!(!keys(&store, "rank:*").is_empty());
    let settings = Settings {
        command: "all",
        config: &without,
    };
    let _countd = Countd::with(&store.server, &settings);
    wait_until("the keys are deleted", || {
        keys(&store, "rank:*").is_empty() && keys(&store, "countd:ranks").is_empty()
    });
    assert_invariants([&store.server], &without);
}

fn a_ranking_is_refilled_from_days(store: TestStore) {
    let countd = Countd::start(&store.server, &config());
    let api = countd.api();
    let mut random = Random(9);
    act(&api, &mut random, 300);
    wait_until_drained(&store.server, PARTITIONS);
    let before = wait_until_right(&api);
    let mut client = store.server.client();
    let is_day = |key: &String| !key.contains(":state");
    // Lost with their state.
    for key in keys(&store, "rank:*") {
        client.call(&["DEL", &key]);
    }
    assert_eq!(items(&wait_until_right(&api)), items(&before));
    // Other types at their keys do not stop counting.
    for key in keys(&store, "rank:*").iter().filter(|key| is_day(key)) {
        client.call(&["SET", key, "damaged"]);
    }
    act(&api, &mut random, 50);
    wait_until_drained(&store.server, PARTITIONS);
    wait_until("the sorted sets are replaced", || {
        let damaged = keys(&store, "rank:*").into_iter();
        damaged.filter(is_day).all(|key| {
            let kind = reply::text(store.server.client().call(&["TYPE", &key]));
            kind != "string"
        })
    });
    wait_until_right(&api);
    for key in keys(&store, "rank:*").iter().filter(|key| !is_day(key)) {
        client.call(&["SET", key, "damaged"]);
    }
    act(&api, &mut random, 50);
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_right(&api);
}

fn an_erased_entity_leaves_the_ranking(store: TestStore) {
    let countd = Countd::start(&store.server, &config());
    let api = countd.api();
    let mut random = Random(2);
    act(&api, &mut random, 100);
    for eid in ["1", "n.4"] {
        for uid in 0..100 {
            api.act("like", on(eid, uid));
            api.act("comment", on(eid, uid));
        }
    }
    wait_until_drained(&store.server, PARTITIONS);
    let first = items(&wait_until_right(&api));
    for eid in ["1", "n.4"] {
        assert!(first[..2].iter().any(|(first, _)| first == eid));
        let (status, job) = api.delete(&format!("/entity/note/{eid}"));
        assert_eq!(status, 202, "{job}");
        let path = format!("/jobs/{}", job["id"].as_str().expect("an ID"));
        wait_until("the entity is erased", || {
            api.ok(api.get(&path))["state"] == "done"
        });
        for key in keys(&store, "rank:hot:note:2*") {
            let score = store.server.client().call(&["ZSCORE", &key, eid]);
            assert_eq!(score, countint_tests::Value::Nil, "{eid} in {key}");
        }
    }
    let after = items(&wait_until_right(&api));
    assert!(after.iter().all(|(eid, _)| eid != "1" && eid != "n.4"));
    // It can come back.
    api.act("comment", on("1", 1));
    let body = json!({ "etype": "note", "eid": "1", "metric": "comment", "reason": "a test", "add": 9999 });
    api.ok(api.post("/counter/adjust", &body));
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(
        items(&wait_until_right(&api))[0],
        ("1".to_owned(), 30_000.0)
    );
}
