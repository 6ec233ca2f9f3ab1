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
    a_damaged_table_of_users_does_not_stop_sweeps
}

/// Tests in which the slots of partitions differ.
mod with_slots {
    use super::*;

    for_each_store! {
        [cluster cluster_objects]
        a_sweep_whose_end_was_forced_and_interrupted_corrects_nothing
    }
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
    let mut countd = Countd::start(&store.server, &without_sweeps(CONFIG));
    enter(&store, |_| 2);
    for author in 1..=40 {
        let like = with(on_note(author, 1), json!({ "author": author }));
        countd.api().act("like", like);
    }
    wait_until_drained(&store.server, PARTITIONS);
    countd.kill();
    enter(&store, |slot| if slot < PARTITIONS / 2 { 4 } else { 3 });
    let _countd = Countd::start(&store.server, CONFIG);
    let mut client = store.server.client();
    wait_until("the sweep ends", || ended_sweeps(&store, &mut client) >= 1);
    let corrections = audit(&store, &mut client);
    assert!(corrections.is_empty(), "{corrections:?}");
}

/// A slot has lost its state, and the sweep is given up in the other slots. This is interrupted before the last one, whose sums are not
/// complete: they must not be compared.
fn a_sweep_whose_end_was_forced_and_interrupted_corrects_nothing(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    for author in 1..=40 {
        api.act(
            "like",
            with(on_note(author, 50), json!({ "author": author })),
        );
    }
    wait_until_drained(&store.server, PARTITIONS);
    wait_for_sweep(&store);
    countd.suspend();
    let (last, mut client) = (PARTITIONS - 1, store.server.client());
    for slot in 0..=last {
        let key = format!("countd:sums:{{{slot}}}");
        match slot {
            // It has lost its state.
            0 => client.ok(&format!("DEL {key}")),
            _ => client.ok(&format!("HSET {key} sweep 1000 stage 3")),
        };
    }
    // The state of the last slot cannot be written.
    let others = "%R~* ~[^c]* ~c[^o]* ~countd:[^s]* ~countd:s[^u]* ~countd:sums:l* ~countd:sums:{?} ~countd:sums:{1[^5]}";
    assert_eq!(last, 15);
    client.ok(&format!("ACL SETUSER default resetkeys {others}"));
    countd.resume();
    let mut stage = |slot: u16| {
        let key = format!("countd:sums:{{{slot}}}");
        client.run(&format!("HGET {key} stage"))
    };
    wait_until("the other slots have given up", || {
        (0..last).all(|slot| stage(slot) == "\"4\"")
    });
    assert_eq!(stage(last), "\"3\"");
    client.ok("ACL SETUSER default allkeys");
    wait_until("the sweep ends", || {
        ended_sweeps(&store, &mut client) >= 1_000
    });
    let corrections = audit(&store, &mut client);
    assert!(corrections.is_empty(), "{corrections:?}");
    assert_eq!(api.user(40)["likesReceived"], 1);
}

fn without_sweeps(config: &str) -> String {
    config.replace("[reconcile]\n", "[reconcile]\nenabled = false\n")
}

/// The first sweep enters a stage in each slot. Authors are coloured in stage 2, and sums are compared in stage 3.
fn enter(store: &TestStore, stage: impl Fn(u16) -> u64) {
    let mut client = store.server.client();
    for (number, slot) in (0..).zip(slots(store)) {
        let stage = stage(number);
        client.ok(&format!("HSET countd:sums{slot} sweep 1 stage {stage}"));
    }
}

/// While a sweep adds up credits, the consumer compares counters of entities with their facts, and corrects one. No other event is in the
/// batch of such a check. What it credits is part of the sums.
fn corrections_of_entities_are_part_of_the_sums(store: TestStore) {
    let like = "[metrics.like]\nnature = \"once\"\ncount = ";
    let metrics = workload::metrics().replace("daily = true\n", "");
    assert!(metrics.contains(&format!("{like}\"now\"")), "{metrics}");
    let metrics = metrics.replace(like, &like.replace("count = ", "count = \"batched\"\n# "));
    let sweeps = &format!("{CONFIG}{metrics}");
    let no_sweeps = &without_sweeps(sweeps);
    let mut countd = Countd::start(&store.server, no_sweeps);
    let api = countd.api();
    enter(&store, |_| 2);
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
    enter(&store, |_| 3);
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

/// The counters of the users of a partition are lost. Those of other users are compared.
fn a_damaged_table_of_users_does_not_stop_sweeps(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    for author in [7, 8] {
        let like = with(on_note(author, 1), json!({ "author": author }));
        api.act("like", like);
    }
    wait_until_drained(&store.server, PARTITIONS);
    let mut client = store.server.client();
    let damaged = store.user_counters("7", PARTITIONS);
    assert_ne!(damaged, store.user_counters("8", PARTITIONS));
    client.call(&["SET", &damaged, "damaged"]);
    forge(&store, "8", 3, 40);
    wait_until("the counter of the other user is corrected", || {
        let corrections = audit(&store, &mut client);
        let mut of_user = corrections.iter().map(|entry| field(entry, "eid"));
        of_user.any(|eid| eid == "8")
    });
    wait_for_sweep(&store);
}
