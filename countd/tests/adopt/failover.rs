//! A master fails over while data is converted: the result matches the model.

use super::setup::{CONFIG, PARTITIONS, not_converted, start};
use crate::failover::{fail_over, fast_failover};
use crate::migrate::failover::{COLD, counters_of};
use crate::support::conversions::{assert_cold_notes, create_cold_notes};
use crate::support::invariants::assert_invariants_of_all;
use crate::support::verify::assert_matches_model;
use crate::support::workload::{WorkloadSize, run_clients};
use crate::support::{Countd, Settings, printed, run, set_schema, wait_until_all_drained};
use countint_tests::{Builder, Cluster};

const SIZE: WorkloadSize = WorkloadSize {
    clients: 6,
    users: 20,
    notes: 200,
    actions_per_client: 1_000,
    batch: 25,
    erasures: 1,
};

fn without_module(builder: Builder) -> Builder {
    let builder = fast_failover(builder).no_module();
    builder.config("enable-module-command local")
}

/// A manual failover: the replica has everything that the master has acknowledged.
#[test]
fn counts_match_the_model_when_a_master_fails_over_during_an_adoption() {
    let mut cluster = Cluster::with(without_module);
    let mut replica = cluster.replica(0, without_module);
    let config: &str = &CONFIG;
    set_schema(&cluster.nodes[1], config);
    for node in &cluster.nodes {
        create_cold_notes(node, COLD, |note| {
            format!("BITFIELD {} SET u40 #4 {note}", counters_of(note))
        });
    }
    let settings = |command| Settings { command, config };
    let processes =
        ["serve", "all"].map(|command| Countd::with(&cluster.nodes[1], &settings(command)));
    let apis = [processes[0].api(), processes[1].api()];
    let model = run_clients(&apis, 10, SIZE, |progress| {
        progress.wait_for(SIZE.total() / 4);
        // Replicas first: they execute what their masters do.
        replica.load_module();
        for node in &mut cluster.nodes {
            node.load_module();
        }
        let mut adopting = start(&cluster.nodes[1], config, &[]);
        assert!(adopting.wait_for_step("converting", 1));
        fail_over(&cluster.nodes[0], &replica);
        let (succeeded, _, errors) = adopting.end();
        assert!(succeeded, "{errors}");
    });
    wait_until_all_drained(&cluster.nodes, PARTITIONS);
    assert_matches_model(&apis[0], &model, SIZE);
    let masters = [&replica, &cluster.nodes[1], &cluster.nodes[2]];
    assert_invariants_of_all(masters, config);
    assert_cold_notes(&apis[1], COLD);
    for master in masters {
        let left = not_converted(master);
        assert!(left.is_empty(), "{} are left: {left:.30?}", left.len());
    }
    let dead = run(&cluster.nodes[1], config, &["dead", "list"]);
    assert_eq!(printed(&dead), "");
}
