//! Received counters: a sweep adds up what authors were credited with, and compares the sums with the counters.

use super::{CONFIG, PARTITIONS, audit, ended_sweeps, field, forge, slots, wait_for_sweep};
use crate::reconcile::setup::{LIKE, forge as forge_note};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::verify::assert_matches_model;
use crate::support::workload::{self, Random, WorkloadSize, run_clients};
use crate::support::{Api, Countd, on_note, run, wait_until_drained, with};
use countint_tests::wait_until;
use serde_json::json;
use std::thread;
use std::time::Duration;

for_each_store! {
    [module objects plain cluster cluster_objects]
    received_sums_are_exact_under_load
    a_forged_received_counter_is_corrected_and_audited
    increments_of_an_older_sweep_add_nothing
    a_sweep_whose_state_is_lost_corrects_nothing
    a_sweep_whose_end_was_interrupted_continues
    corrections_of_entities_are_part_of_the_sums
    killed_sweeps_continue
}

const SIZE: WorkloadSize = WorkloadSize {
    clients: 6,
    users: 10,
    notes: 90,
    actions_per_client: 400,
    batch: 20,
    erasures: 0,
};

fn config() -> String {
    format!("{CONFIG}{}", workload::metrics())
}

/// Likes, unlikes and transfers of authors while several sweeps run.
fn received_sums_are_exact_under_load(store: TestStore) {
    let countd = Countd::start(&store.server, &config());
    let model = run_clients(&[countd.api()], 7, SIZE, |_| {
        let mut client = store.server.client();
        for sweep in 1..=3 {
            wait_until("a sweep ends under load", || {
                ended_sweeps(&store, &mut client) >= sweep
            });
        }
    });
    wait_until_drained(&store.server, PARTITIONS);
    wait_for_sweep(&store);
    wait_until_drained(&store.server, PARTITIONS);
    let corrections = audit(&store, &mut store.server.client());
    assert!(corrections.is_empty(), "{corrections:?}");
    assert_matches_model(&countd.api(), &model, SIZE);
    assert_invariants(&store.server, &config());
}

fn a_forged_received_counter_is_corrected_and_audited(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    for (note, author) in [(1, "7"), (2, "7"), (3, "a-7")] {
        for uid in 1..=5 {
            api.act(
                "like",
                with(on_note(note, uid), json!({ "author": author })),
            );
        }
    }
    wait_until_drained(&store.server, PARTITIONS);
    // The user 8 has no notes. Those of user 9 have no likes.
    api.act("follow", json!({ "eid": "8", "uid": "9" }));
    api.act("publish", on_note(4, 9));
    wait_until_drained(&store.server, PARTITIONS);
    for (uid, forged) in [("7", 3), ("a-7", 1_000), ("8", 6), ("9", 1)] {
        forge(&store, uid, 3, forged);
    }
    let likes = |uid: &str| {
        let path = format!("/relation/counter?uid={uid}");
        api.ok(api.get(&path))["counts"]["likesReceived"].clone()
    };
    wait_until("the counters are corrected", || {
        [likes("7"), likes("a-7"), likes("8"), likes("9")]
            == [json!(10), json!(5), json!(0), json!(0)]
    });
    wait_for_sweep(&store);
    let mut corrections = audit(&store, &mut store.server.client());
    corrections.sort_by_key(|entry| field(entry, "eid").to_owned());
    let found: Vec<[&str; 6]> = corrections
        .iter()
        .map(|entry| {
            ["eid", "metric", "before", "after", "difference", "source"]
                .map(|name| field(entry, name))
        })
        .collect();
    assert_eq!(
        found,
        [
            ["7", "likesReceived", "3", "10", "7", "credits"],
            ["8", "likesReceived", "6", "0", "-6", "credits"],
            ["9", "likesReceived", "1", "0", "-1", "credits"],
            ["a-7", "likesReceived", "1000", "5", "-995", "credits"],
        ]
    );
}

fn increments_of_an_older_sweep_add_nothing(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    api.act("like", with(on_note(1, 42), json!({ "author": 7 })));
    wait_until_drained(&store.server, PARTITIONS);
    let mut client = store.server.client();
    let log = store.log(TestStore::partition("7", PARTITIONS));
    wait_for_sweep(&store);
    let before = ended_sweeps(&store, &mut client);
    wait_until("three more sweeps end", || {
        for sweep in [1, 1_000_000] {
            let entry = format!(r#"{{"sums":[["7","likesReceived",5,{sweep}]]}}"#);
            client.call(&["XADD", &log, "0-*", "d", &entry]);
        }
        wait_until_drained(&store.server, PARTITIONS);
        ended_sweeps(&store, &mut client) >= before + 4
    });
    assert_eq!(api.user(7)["likesReceived"], 1);
    let corrections = audit(&store, &mut client);
    assert!(corrections.is_empty(), "{corrections:?}");
}

/// A slot without its state does not add to sums. The sweep is given up, and the next one is complete.
fn a_sweep_whose_state_is_lost_corrects_nothing(store: TestStore) {
    let mut countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    for note in 1..=40 {
        api.act("like", with(on_note(note, 42), json!({ "author": 7 })));
    }
    wait_until_drained(&store.server, PARTITIONS);
    wait_for_sweep(&store);
    countd.kill();
    let mut client = store.server.client();
    for slot in super::slots(&store)
        .iter()
        .skip(usize::from(store.is_cluster()))
    {
        // As if the sweep was in progress.
        let key = format!("countd:sums{slot}");
        client.call(&["HSET", &key, "sweep", "1000", "stage", "2"]);
    }
    countd.launch();
    for sweep in [1_000, 1_001] {
        wait_until("a later sweep ends", || {
            ended_sweeps(&store, &mut client) >= sweep
        });
    }
    let api = countd.api();
    assert_eq!(api.user(7)["likesReceived"], 40);
    let corrections = audit(&store, &mut client);
    assert!(corrections.is_empty(), "{corrections:?}");
}

fn killed_sweeps_continue(mut store: TestStore) {
    let config = config();
    let mut countd = Countd::start(&store.server, &config);
    let other = Countd::start(&store.server, &config);
    let size = WorkloadSize {
        actions_per_client: 900,
        ..SIZE
    };
    let mut random = Random(5);
    let model = run_clients(&[other.api()], 11, size, |progress| {
        for kill in 1..=8 {
            progress.wait_for(kill * size.total() / 10);
            thread::sleep(Duration::from_millis(random.below(700)));
            if kill % 4 == 0 {
                store.restart();
            } else {
                countd.kill();
                countd.launch();
            }
        }
    });
    drop(countd);
    wait_until_drained(&store.server, PARTITIONS);
    wait_for_sweep(&store);
    wait_until_drained(&store.server, PARTITIONS);
    let corrections = audit(&store, &mut store.server.client());
    assert!(corrections.is_empty(), "{corrections:?}");
    assert_matches_model(&other.api(), &model, size);
    assert_invariants(&store.server, &config);
}

/// A process was killed while it recorded in each slot that all counters were compared. The next process ends the sweep.
fn a_sweep_whose_end_was_interrupted_continues(store: TestStore) {
    let mut client = store.server.client();
    let slots = slots(&store);
    for (number, slot) in slots.iter().enumerate() {
        let stage = if number < slots.len() / 2 { 4 } else { 3 };
        client.ok(&format!("HSET countd:sums{slot} sweep 1 stage {stage}"));
    }
    let _countd = Countd::start(&store.server, CONFIG);
    wait_until("the sweep ends", || ended_sweeps(&store, &mut client) >= 1);
}

/// While a sweep adds up credits, the consumer compares counters of entities with their facts, and corrects one. No other event is in the
/// batch of such a check. What it credits is part of the sums.
fn corrections_of_entities_are_part_of_the_sums(store: TestStore) {
    let like = "[metrics.like]\nnature = \"once\"\ncount = ";
    let metrics = workload::metrics().replace("daily = true\n", "");
    assert!(metrics.contains(&format!("{like}\"now\"")), "{metrics}");
    let metrics = metrics.replace(like, &like.replace("count = ", "count = \"batched\"\n# "));
    let sweeps = &format!("{CONFIG}{metrics}");
    let no_sweeps = &sweeps.replace("[reconcile]\n", "[reconcile]\nenabled = false\n");
    let mut countd = Countd::start(&store.server, no_sweeps);
    let (api, mut client) = (countd.api(), store.server.client());
    let mut enter = |stage: u64| {
        for slot in slots(&store) {
            client.ok(&format!("HSET countd:sums{slot} sweep 1 stage {stage}"));
        }
    };
    // Authors are coloured.
    enter(2);
    let act = |note: u64, uid: u64| {
        api.act("like", with(on_note(note, uid), json!({ "author": 7 })));
        wait_until_drained(&store.server, PARTITIONS);
    };
    let check = |note: u64, option: &str| {
        let note = note.to_string();
        let words = ["reconcile", "--entity", "note", &note, option];
        run(&store.server, no_sweeps, &words);
        wait_until_drained(&store.server, PARTITIONS);
    };
    let likes = |api: &Api| api.user(7)["likesReceived"].clone();
    // The check of the first note credits the forged likes.
    act(1, 40);
    forge_note(&store, "note:1", LIKE, 3);
    check(1, "--dry-run");
    assert_eq!(likes(&api), 4);
    // An event of the second note credits them, and the check takes them back.
    act(2, 40);
    forge_note(&store, "note:2", LIKE, 5);
    act(2, 41);
    assert_eq!(likes(&api), 11);
    check(2, "--exact");
    assert_eq!(likes(&api), 6);
    countd.kill();
    // Sums and counters are compared.
    enter(3);
    let countd = Countd::start(&store.server, sweeps);
    let mut client = store.server.client();
    wait_until("the sweep ends", || ended_sweeps(&store, &mut client) >= 1);
    let corrections = audit(&store, &mut client);
    let credits = corrections
        .iter()
        .filter(|entry| field(entry, "source") == "credits");
    assert_eq!(credits.count(), 0, "{corrections:?}");
    drop(countd);
}
