//! Counts by day and totals of facts.

use super::clients::{Clients, daily_config};
use super::{Log, Saboteur, Target, sabotage};
use crate::support::stores::{TestStore, cluster, module, objects, plain};
use countint_tests::{Cluster, Server};

/// Facts decide over the counter, the total and the days, whatever of them is damaged.
fn assert_days_corrected(servers: &mut [Server], facts: &str) {
    let mut saboteur = Saboteur::new(Clients::Add);
    saboteur.acts = 30;
    let targets = [Target::Days, Target::Days, Target::Notes];
    let log = Log::streams(&daily_config(facts));
    sabotage(servers, &log, &mut saboteur, &targets);
    saboteur.assert_audited(servers);
}

fn assert_days_of_store_corrected(mut store: TestStore, facts: &str) {
    assert_days_corrected(std::slice::from_mut(&mut store.server), facts);
}

#[test]
fn sabotaged_days_of_facts_are_corrected_in_tables() {
    assert_days_of_store_corrected(module(), "rbm");
}

#[test]
fn sabotaged_days_of_facts_are_corrected_without_the_module() {
    assert_days_of_store_corrected(plain(), "rbm");
}

#[test]
fn sabotaged_days_of_facts_are_corrected_with_bitmaps() {
    assert_days_of_store_corrected(module(), "bitmap");
}

#[test]
fn sabotaged_days_of_facts_are_corrected_with_sets_of_days() {
    assert_days_of_store_corrected(objects(), "daily");
}

#[test]
fn sabotaged_days_of_facts_are_corrected_with_sharded_sets() {
    assert_days_of_store_corrected(module(), "sharded");
}

#[test]
fn sabotaged_days_of_facts_are_corrected_in_cluster_mode() {
    assert_days_of_store_corrected(cluster(), "rbm");
}

#[test]
fn sabotaged_days_of_facts_are_corrected_on_three_nodes() {
    let mut cluster = Cluster::with(|builder| builder.append_only(true));
    assert_days_corrected(&mut cluster.nodes, "rbm");
}
