//! Under load and through kills, reconciliation without thresholds finds no difference.

use super::setup::{EXACT_ROUNDS, PARTITIONS};
use crate::model::with_other_fact_stores;
use crate::support::invariants::Invariants;
use crate::support::stores::{self, TestStore, for_each_store, wait_until_up};
use crate::support::verify::assert_matches_model;
use crate::support::workload::{self, Random, WorkloadSize, run_clients};
use crate::support::{
    Countd, Settings, printed, run, set_schema, wait_until_all_drained, wait_until_days_are_kept,
};
use countint_tests::{Cluster, Server, Value, reply};
use serde_json::Value as Json;
use std::thread;
use std::time::Duration;

/// The number of metrics with counts by day.
const METRICS: usize = 4;

/// Enough for some kills of each process.
const SIZE: WorkloadSize = WorkloadSize {
    clients: 8,
    users: 20,
    notes: 60,
    actions_per_client: 2_500,
    batch: 25,
    erasures: 0,
};
/// The number of kills of each process and of a node, and with fewer actions.
const KILLS: u64 = 4;
const FEW_KILLS: u64 = 2;

for_each_store! {
    [module objects plain cluster]
    reconciliation_at_full_load_corrects_nothing
}

/// The metrics of the workload, with likes that the consumer counts, and with counts by day of metrics of all kinds.
fn metrics() -> String {
    let mut metrics = workload::metrics();
    for metric in ["fav", "comment"] {
        let table = format!("[metrics.{metric}]\n");
        assert!(metrics.contains(&table), "{metrics}");
        metrics = metrics.replace(&table, &format!("{table}daily = true\n"));
    }
    let likes = "[metrics.like]\ndaily = true\nnature = \"once\"\ncount = \"now\"";
    assert!(metrics.contains(likes), "{metrics}");
    metrics.replace(likes, &likes.replace("now", "batched"))
}

fn reconciliation_at_full_load_corrects_nothing(mut store: TestStore) {
    let size = store.full_or((SIZE, KILLS), (SMALL, FEW_KILLS));
    assert_nothing_corrected(std::slice::from_mut(&mut store.server), size, &metrics());
}

/// The same with fewer actions.
const SMALL: WorkloadSize = WorkloadSize {
    actions_per_client: 600,
    ..SIZE
};

#[test]
fn reconciliation_of_other_fact_stores_at_full_load_corrects_nothing() {
    let mut store = stores::module();
    let servers = std::slice::from_mut(&mut store.server);
    let size = (SMALL, FEW_KILLS);
    assert_nothing_corrected(servers, size, &with_other_fact_stores(&metrics()));
}

#[test]
fn reconciliation_at_full_load_on_three_nodes_corrects_nothing() {
    let mut cluster = Cluster::with(|builder| builder.append_only(true));
    // Each node is killed once.
    assert_nothing_corrected(&mut cluster.nodes, (SMALL, 3), &metrics());
}

fn assert_nothing_corrected(
    servers: &mut [Server],
    (size, kills): (WorkloadSize, u64),
    metrics: &str,
) {
    let config = &format!(
        "[log]\npartitions = {PARTITIONS}\nretain = 100\n[consumer]\nlinger_ms = 5\nbatch = 50\nsession_timeout_ms = 500\n[reconcile]\n{EXACT_ROUNDS}\n{metrics}",
    );
    set_schema(&servers[0], config);
    let settings = |command| Settings { command, config };
    let mut processes =
        ["serve", "consume", "all"].map(|command| Countd::with(&servers[0], &settings(command)));
    let apis = [processes[0].api(), processes[2].api()];
    let mut random = Random(7);
    let model = run_clients(&apis, 7, size, |progress| {
        let slice = size.total() / (4 * kills);
        for kill in 0..4 * kills {
            progress.wait_for(kill * slice + random.below(slice));
            thread::sleep(Duration::from_millis(random.below(30)));
            match (kill % 4) as usize {
                3 => {
                    assert_equal(servers, config);
                    let node = (kill / 4) as usize % servers.len();
                    servers[node].kill();
                    servers[node].start_again();
                    wait_until_up(servers);
                }
                process => {
                    processes[process].kill();
                    processes[process].launch();
                }
            }
        }
    });
    wait_until_all_drained(servers.iter(), PARTITIONS);
    assert_matches_model(&apis[0], &model, size);
    wait_until_days_are_kept(servers, METRICS);
    Invariants::new(servers.iter(), config).assert();
    for server in servers.iter() {
        let mut client = server.client();
        for audit in reply::array(client.ok("KEYS x:audit:cntfix*")) {
            let entries = client.call(&["XRANGE", &reply::text(audit), "-", "+"]);
            assert_eq!(
                reply::format(&entries),
                reply::format(&Value::Array(Vec::new()))
            );
        }
    }
}

/// Compares all counters exactly, while clients act. Rounds compare only those exactly that seem to differ, and under light load none does.
fn assert_equal(servers: &[Server], config: &str) {
    wait_until_days_are_kept(servers, METRICS);
    let arguments = ["reconcile", "--all", "--exact", "--json"];
    let report = printed(&run(&servers[0], config, &arguments));
    let report: Json = serde_json::from_str(&report).expect("JSON");
    for metric in ["like", "fav", "read", "comment"] {
        let of = &report["metrics"][metric];
        assert!(
            of["checked"].as_u64().is_some_and(|checked| checked > 0),
            "{report}"
        );
        assert_eq!(of["differing"], 0, "{report}");
    }
}
