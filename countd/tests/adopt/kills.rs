//! Adoptions that are killed at each step and run again, while the other processes and the server are killed, too.

use super::reads::Reads;
use super::setup::{CONFIG, OTHER_FACT_STORES, PARTITIONS, assert_adopted, start};
use crate::support::conversions::Command;
use crate::support::kafka::Log;
use crate::support::set_schema;
use crate::support::stores::{TestStore, adoptable, cluster_adoptable};

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

/// The index of a counter that has neither facts nor counts by day.
const REPOST: u8 = 4;

#[test]
fn counts_match_the_model_when_adoptions_are_killed() {
    assert_adopted_under_kills(adoptable(), &CONFIG);
}

#[test]
fn counts_match_the_model_when_adoptions_of_other_fact_stores_are_killed() {
    assert_adopted_under_kills(adoptable(), &OTHER_FACT_STORES);
}

#[test]
fn counts_match_the_model_when_adoptions_are_killed_in_cluster_mode() {
    assert_adopted_under_kills(cluster_adoptable(), &CONFIG);
}

fn assert_adopted_under_kills(mut store: TestStore, config: &'static str) {
    assert_counts_match_under_kills(&mut store, &Log::streams(config), &STEPS);
    assert_adopted(&store.server, config);
}

/// Asserts that counts match the model when adoptions are killed at these steps.
pub fn assert_counts_match_under_kills(store: &mut TestStore, log: &Log, steps: &[(&str, usize)]) {
    set_schema(&store.server, &log.config);
    let adoption = Command {
        targets: &[""],
        start: &|server, _| start(server, &log.config, &[]),
        steps,
        last_layout: "layout: module",
    };
    let cold = |store: &TestStore, note| {
        let key = store.counters("v1", &format!("note:{note}"), PARTITIONS);
        format!("BITFIELD {key} SET u40 #{REPOST} {note}")
    };
    let (reads, _processes) =
        adoption.assert_counts_match_under_kills((store, log, PARTITIONS), cold, |store, api| {
            let reads = Reads::create(&store.server, api).with_restarts();
            store.server.load_module();
            reads
        });
    assert!(reads > 0);
}
