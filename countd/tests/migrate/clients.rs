//! Concurrent clients while counters move: the result matches the model.

use super::resets::Resets;
use super::setup::{CONFIG, PARTITIONS, assert_migrated, migrate, start};
use crate::support::conversions::{assert_converted, move_slots, run_clients_beside};
use crate::support::invariants::assert_invariants_of_all;
use crate::support::stores::{TestStore, cluster_objects, objects};
use crate::support::verify::assert_matches_model;
use crate::support::workload::{Random, WorkloadSize, run_clients};
use crate::support::{Countd, Settings, printed, run, set_schema, wait_until_all_drained};
use countint_tests::{Cluster, reply, wait_until};
use std::thread;
use std::time::Duration;

const SIZE: WorkloadSize = WorkloadSize {
    clients: 8,
    users: 20,
    notes: 300,
    actions_per_client: 800,
    batch: 25,
    erasures: 1,
};

#[test]
fn counts_match_the_model_when_counters_move() {
    assert_counts_match(&objects());
}

#[test]
fn counts_match_the_model_when_counters_move_in_cluster_mode() {
    assert_counts_match(&cluster_objects());
}

fn assert_counts_match(store: &TestStore) {
    let server = &store.server;
    set_schema(server, &CONFIG);
    let settings = |command| Settings {
        command,
        config: &CONFIG,
    };
    let processes = ["serve", "all"].map(|command| Countd::with(server, &settings(command)));
    let apis = [processes[0].api(), processes[1].api()];
    let resets = Resets::new(10_000);
    let (model, sums) = run_clients_beside((&resets, &apis[0]), (&apis, 7, SIZE), |progress| {
        progress.wait_for(SIZE.total() / 4);
        let printed = migrate(server, "note");
        assert!(printed.contains("counters of note are rows"), "{printed}");
        migrate(server, "user");
    });
    assert_converted((server, &CONFIG), &apis, (&model, SIZE), PARTITIONS);
    sums.assert_complete(&apis[1]);
    assert_migrated(&[server]);
    let mut client = server.client();
    for field in ["storage:note", "storage:user"] {
        let storage = reply::text(client.ok(&format!("HGET countd:layout {field}")));
        assert_eq!(storage, "table", "{field}");
    }
}

/// Three nodes. Slots move while counters move, and one of the nodes is killed.
#[test]
fn counts_match_the_model_when_counters_and_slots_move() {
    let mut cluster = Cluster::with(|builder| builder.append_only(true));
    cluster
        .node_of("countd:layout")
        .client()
        .ok("HSET countd:layout storage:default object");
    set_schema(&cluster.nodes[0], &CONFIG);
    let settings = |command| Settings {
        command,
        config: &CONFIG,
    };
    let processes =
        ["serve", "consume"].map(|command| Countd::with(&cluster.nodes[0], &settings(command)));
    let api = processes[0].api();
    let mut random = Random(11);
    let model = run_clients(std::slice::from_ref(&api), 8, SIZE, |progress| {
        progress.wait_for(SIZE.total() / 4);
        let migrating = start(&cluster.nodes[1], "note", &[]);
        move_slots(&cluster);
        let (succeeded, _, errors) = migrating.end();
        assert!(succeeded, "{errors}");
        let mut migrating = start(&cluster.nodes[1], "user", &[]);
        migrating.wait_for_step("moving", 1);
        thread::sleep(Duration::from_millis(random.below(50)));
        cluster.nodes[2].kill();
        cluster.nodes[2].start_again();
        let (succeeded, _, errors) = migrating.end();
        assert!(succeeded, "{errors}");
    });
    wait_until("the cluster serves all slots again", || {
        cluster
            .nodes
            .iter()
            .all(|node| reply::text(node.client().ok("CLUSTER INFO")).contains("cluster_state:ok"))
    });
    wait_until_all_drained(&cluster.nodes, PARTITIONS);
    assert_matches_model(&api, &model, SIZE);
    assert_invariants_of_all(&cluster.nodes, &CONFIG);
    let nodes: Vec<_> = cluster.nodes.iter().collect();
    assert_migrated(&nodes);
    assert_eq!(
        printed(&run(&cluster.nodes[0], &CONFIG, &["dead", "list"])),
        ""
    );
}
