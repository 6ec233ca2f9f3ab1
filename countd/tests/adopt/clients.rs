//! Concurrent clients while data is converted: the result matches the model, and no read is wrong meanwhile.

use super::reads::Reads;
use super::setup::{
    CONFIG, OTHER_FACT_STORES, PARTITIONS, adopt, assert_adopted, not_converted, start,
};
use crate::migrate::setup::objects_of_numbers;
use crate::support::conversions::{assert_converted, move_slots, run_clients_beside};
use crate::support::invariants::{assert_invariants, assert_invariants_of_all};
use crate::support::stores::{TestStore, adoptable, cluster_adoptable, wait_until_up};
use crate::support::verify::assert_matches_model;
use crate::support::workload::{Random, WorkloadSize, run_clients};
use crate::support::{Countd, Settings, printed, run, set_schema, wait_until_all_drained};
use countint_tests::Cluster;
use std::thread;
use std::time::Duration;

const SIZE: WorkloadSize = WorkloadSize {
    clients: 8,
    users: 20,
    notes: 300,
    actions_per_client: 400,
    batch: 25,
    erasures: 1,
};

#[test]
fn counts_match_the_model_when_data_is_converted() {
    assert_counts_match(adoptable(), &CONFIG);
}

#[test]
fn counts_match_the_model_when_data_of_other_fact_stores_is_converted() {
    assert_counts_match(adoptable(), &OTHER_FACT_STORES);
}

#[test]
fn counts_match_the_model_when_data_is_converted_in_cluster_mode() {
    assert_counts_match(cluster_adoptable(), &CONFIG);
}

/// Three nodes. Slots move while data is converted, and one of the nodes is killed.
#[test]
fn counts_match_the_model_when_data_is_converted_and_slots_move() {
    let mut cluster = Cluster::with(|builder| {
        let builder = builder.append_only(true).no_module();
        builder.config("enable-module-command local")
    });
    let config: &str = &CONFIG;
    set_schema(&cluster.nodes[0], config);
    let settings = |command| Settings { command, config };
    let processes =
        ["serve", "consume"].map(|command| Countd::with(&cluster.nodes[0], &settings(command)));
    let api = processes[0].api();
    let mut random = Random(11);
    let model = run_clients(std::slice::from_ref(&api), 8, SIZE, |progress| {
        progress.wait_for(SIZE.total() / 4);
        for node in &mut cluster.nodes {
            node.load_module();
        }
        let mut adopting = start(&cluster.nodes[1], config, &[]);
        assert!(adopting.wait_for_step("layout: module-or-plain", 1));
        move_slots(&cluster);
        adopting.wait_for_step("converting", 1);
        thread::sleep(Duration::from_millis(random.below(50)));
        cluster.nodes[2].kill();
        cluster.nodes[2].start_again();
        let (succeeded, _, errors) = adopting.end();
        assert!(succeeded, "{errors}");
    });
    wait_until_up(&cluster.nodes);
    wait_until_all_drained(&cluster.nodes, PARTITIONS);
    assert_matches_model(&api, &model, SIZE);
    assert_invariants_of_all(&cluster.nodes, config);
    for node in &cluster.nodes {
        let left = not_converted(node);
        assert!(left.is_empty(), "{} are left: {left:.30?}", left.len());
    }
    assert_eq!(
        printed(&run(&cluster.nodes[0], config, &["dead", "list"])),
        ""
    );
}

fn assert_counts_match(mut store: TestStore, config: &'static str) {
    set_schema(&store.server, config);
    let settings = |command| Settings { command, config };
    let processes = ["serve", "all"].map(|command| Countd::with(&store.server, &settings(command)));
    let apis = [processes[0].api(), processes[1].api()];
    let reads = Reads::create(&store.server, &apis[0]);
    let (model, rounds) = run_clients_beside((&reads, &apis[1]), (&apis, 7, SIZE), |progress| {
        progress.wait_for(SIZE.total() / 4);
        // The processes know nothing of the module.
        store.server.load_module();
        progress.wait_for(SIZE.total() / 3);
        assert!(!not_converted(&store.server).is_empty());
        let printed = adopt(&store.server, config);
        assert!(
            printed.contains("the data has the module's types"),
            "{printed}"
        );
    });
    assert!(rounds > 0);
    let server = &store.server;
    assert_converted((server, config), &apis, (&model, SIZE), PARTITIONS);
    assert_adopted(server, config);
    // The same data can have tables now.
    for target in ["note", "user"] {
        let output = run(
            server,
            config,
            &["storage", "migrate", target, "--grace", "1"],
        );
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    assert_eq!(objects_of_numbers(&mut server.client()), [""; 0]);
    assert_matches_model(&apis[0], &model, SIZE);
    assert_invariants(server, config);
}
