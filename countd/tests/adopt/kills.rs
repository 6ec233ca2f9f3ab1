//! Adoptions that are killed at each step and run again, while the other processes and the server are killed, too.

use super::reads::Reads;
use super::setup::{CONFIG, OTHER_FACT_STORES, PARTITIONS, adopt, assert_adopted, start};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, adoptable, cluster_adoptable};
use crate::support::verify::assert_matches_model;
use crate::support::workload::{Random, WorkloadSize, run_clients};
use crate::support::{Countd, Settings, printed, run, set_schema, wait_until_drained};
use std::ops::Range;
use std::thread;
use std::time::Duration;

const SIZE: WorkloadSize = WorkloadSize {
    clients: 6,
    users: 20,
    notes: 300,
    actions_per_client: 1_000,
    batch: 25,
    erasures: 1,
};

/// The steps of an adoption, and which occurrence of each.
const STEPS: [(&str, usize); 10] = [
    ("layout: plain-or-module", 1),
    ("waiting for all processes", 1),
    ("grace period", 1),
    ("layout: module-or-plain", 1),
    ("waiting for all processes", 1),
    ("grace period", 1),
    ("converting", 1),
    ("layout: module", 1),
    ("waiting for all processes", 1),
    ("converting", 1),
];

/// Notes that no client uses, so that only adoptions convert them.
const COLD: Range<u64> = 1_000_000..1_010_000;
/// The index of a counter that has neither facts nor counts by day.
const REPOST: u8 = 4;

fn create_cold_notes(store: &TestStore) {
    let command = |note: u64| {
        let key = store.counters("v1", &format!("note:{note}"), PARTITIONS);
        let words = format!("BITFIELD {key} SET u40 #{REPOST} {note}");
        words.split(' ').map(str::to_owned).collect::<Vec<_>>()
    };
    let commands: Vec<_> = COLD.map(command).collect();
    store.server.client().pipeline(&commands);
}

#[test]
fn counts_match_the_model_when_adoptions_are_killed() {
    assert_counts_match_under_kills(adoptable(), &CONFIG);
}

#[test]
fn counts_match_the_model_when_adoptions_of_other_fact_stores_are_killed() {
    assert_counts_match_under_kills(adoptable(), &OTHER_FACT_STORES);
}

#[test]
fn counts_match_the_model_when_adoptions_are_killed_in_cluster_mode() {
    assert_counts_match_under_kills(cluster_adoptable(), &CONFIG);
}

fn assert_counts_match_under_kills(mut store: TestStore, config: &'static str) {
    set_schema(&store.server, config);
    create_cold_notes(&store);
    let settings = |command| Settings { command, config };
    let mut processes =
        ["serve", "consume", "all"].map(|command| Countd::with(&store.server, &settings(command)));
    let apis = [processes[0].api(), processes[2].api()];
    let reads = Reads::create(&store.server, &apis[0]).with_restarts();
    store.server.load_module();
    let mut random = Random(13);
    let model = thread::scope(|scope| {
        let reading = scope.spawn(|| reads.run(&apis[0]));
        let stop = reads.stop_on_drop();
        let model = run_clients(&apis, 9, SIZE, |progress| {
            progress.wait_for(SIZE.total() / 4);
            for (kill, (step, times)) in STEPS.into_iter().enumerate() {
                let mut adopting = start(&store.server, config, &[]);
                let reached = adopting.wait_for_step(step, times);
                if !reached {
                    // The one before was killed only after it had done this step, too.
                    let (succeeded, _, errors) = adopting.end();
                    assert!(succeeded && step == "layout: module", "{step}: {errors}");
                    continue;
                }
                thread::sleep(Duration::from_millis(random.below(50)));
                match kill % 5 {
                    process @ 0..=2 => {
                        processes[process].kill();
                        adopting.kill();
                        processes[process].launch();
                    }
                    3 => {
                        adopting.kill();
                        store.restart();
                    }
                    _ => adopting.kill(),
                }
                // Otherwise the next one waits until the lock expires.
                store.server.client().ok("DEL countd:migrate");
            }
            adopt(&store.server, config);
        });
        drop(stop);
        assert!(reading.join().expect("the reads are right") > 0);
        model
    });
    wait_until_drained(&store.server, PARTITIONS);
    assert_matches_model(&apis[0], &model, SIZE);
    assert_invariants(&store.server, config);
    for note in COLD.step_by(97) {
        assert_eq!(apis[1].counts(note)["repost"], note, "note {note}");
    }
    assert_adopted(&store.server, config);
    assert_eq!(printed(&run(&store.server, config, &["dead", "list"])), "");
}
