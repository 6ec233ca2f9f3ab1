//! Masters fail over while counters move: the result matches the model.

use super::setup::{CONFIG, PARTITIONS, assert_migrated, start};
use crate::failover::{fail_over, fast_failover};
use crate::support::conversions::{assert_cold_notes, create_cold_notes};
use crate::support::invariants::assert_invariants_of_all;
use crate::support::stores::TestStore;
use crate::support::verify::assert_matches_model;
use crate::support::workload::{WorkloadSize, run_clients};
use crate::support::{Countd, Settings, printed, run, set_schema, wait_until_all_drained};
use countint_tests::{Cluster, reply};
use std::ops::Range;

const SIZE: WorkloadSize = WorkloadSize {
    clients: 6,
    users: 20,
    notes: 200,
    actions_per_client: 1_000,
    batch: 25,
    erasures: 1,
};

/// Notes that no client uses, so that only the migration moves them. They make it last longer than a failover takes. Their counter,
/// `repost`, has neither facts nor counts by day.
pub const COLD: Range<u64> = 1_000_000..1_020_000;

/// The key of the object with the counters of a note, in a cluster.
pub fn counters_of(note: u64) -> String {
    let partition = TestStore::partition(&format!("note:{note}"), PARTITIONS);
    format!("cnt:v1:note:{note}:{{{partition}}}")
}

/// A manual failover: the replica has everything that the master has acknowledged.
#[test]
fn counts_match_the_model_when_a_master_fails_over_during_a_migration() {
    let cluster = Cluster::with(fast_failover);
    let replica = cluster.replica(0, fast_failover);
    let layout = cluster.node_of("countd:layout");
    layout
        .client()
        .ok("HSET countd:layout storage:default object");
    set_schema(&cluster.nodes[1], &CONFIG);
    for node in &cluster.nodes {
        create_cold_notes(node, COLD, |note| {
            format!("CINT.SET {} LEN 5 4 {note}", counters_of(note))
        });
    }
    let settings = |command| Settings {
        command,
        config: &CONFIG,
    };
    let processes =
        ["serve", "all"].map(|command| Countd::with(&cluster.nodes[1], &settings(command)));
    let apis = [processes[0].api(), processes[1].api()];
    let model = run_clients(&apis, 10, SIZE, |progress| {
        progress.wait_for(SIZE.total() / 4);
        let [node, after] = [(&cluster.nodes[0], &replica), (&replica, &cluster.nodes[0])];
        for (target, (from, to)) in [("note", node), ("user", after)] {
            let mut migrating = start(&cluster.nodes[1], target, &[]);
            assert!(migrating.wait_for_step("moving", 1), "{target}");
            fail_over(from, to);
            let (succeeded, _, errors) = migrating.end();
            assert!(succeeded, "{target}: {errors}");
        }
    });
    wait_until_all_drained(&cluster.nodes, PARTITIONS);
    assert_matches_model(&apis[0], &model, SIZE);
    assert_invariants_of_all(&cluster.nodes, &CONFIG);
    assert_cold_notes(&apis[1], COLD);
    let nodes: Vec<_> = cluster.nodes.iter().collect();
    assert_migrated(&nodes);
    let dead = run(&cluster.nodes[1], &CONFIG, &["dead", "list"]);
    assert_eq!(printed(&dead), "");
    // Both nodes are masters and replicas in turn.
    let mut client = replica.client();
    client.ok("READONLY");
    assert_eq!(reply::array(client.ok("KEYS cnt:v1:note:10*")), []);
}
