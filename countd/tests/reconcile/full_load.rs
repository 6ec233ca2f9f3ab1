//! Under load and through kills, reconciliation without thresholds finds no difference.

use super::setup::{EXACT_ROUNDS, audit};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::verify::assert_matches_model;
use crate::support::workload::{self, Random, WorkloadSize, run_clients};
use crate::support::{Countd, Settings, printed, run, set_schema, wait_until_drained};
use countint_tests::{reply, wait_until};
use serde_json::Value as Json;
use std::thread;
use std::time::Duration;

/// Enough for some kills of each process.
const SIZE: WorkloadSize = WorkloadSize {
    clients: 8,
    users: 20,
    notes: 60,
    actions_per_client: 2_500,
    batch: 25,
    erasures: 0,
};
const KILLS: u64 = 4;

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
    let config = &format!(
        "[log]\npartitions = 16\nretain = 100\n[consumer]\nlinger_ms = 5\nbatch = 50\nsession_timeout_ms = 500\n[reconcile]\n{EXACT_ROUNDS}\n{}",
        metrics()
    );
    set_schema(&store.server, config);
    let settings = |command| Settings { command, config };
    let mut processes =
        ["serve", "consume", "all"].map(|command| Countd::with(&store.server, &settings(command)));
    let apis = [processes[0].api(), processes[2].api()];
    let mut random = Random(7);
    let model = run_clients(&apis, 7, SIZE, |progress| {
        let slice = SIZE.total() / (4 * KILLS);
        for kill in 0..4 * KILLS {
            progress.wait_for(kill * slice + random.below(slice));
            thread::sleep(Duration::from_millis(random.below(30)));
            match (kill % 4) as usize {
                3 => {
                    assert_equal(&store, config);
                    store.restart();
                }
                process => {
                    processes[process].kill();
                    processes[process].launch();
                }
            }
        }
    });
    wait_until_drained(&store.server, 16);
    assert_matches_model(&apis[0], &model, SIZE);
    wait_for_days(&store);
    assert_invariants(&store.server, config);
    assert_eq!(audit(&store), []);
}

/// Waits until the counts by day of all four metrics are kept.
fn wait_for_days(store: &TestStore) {
    let mut client = store.server.client();
    wait_until("counts by day are kept", || {
        let states = reply::array(client.call(&["HVALS", "countd:days-init"]));
        let mut states = states.into_iter().map(reply::text);
        states.len() == 4 && states.all(|state| state.ends_with("/on"))
    });
}

/// Compares all counters exactly, while clients act. Rounds compare only those exactly that seem to differ, and under light load none does.
fn assert_equal(store: &TestStore, config: &str) {
    wait_for_days(store);
    let arguments = ["reconcile", "--all", "--exact", "--json"];
    let report = printed(&run(&store.server, config, &arguments));
    let report: Json = serde_json::from_str(&report).expect("JSON");
    for metric in ["like", "fav"] {
        let of = &report["metrics"][metric];
        assert!(
            of["checked"].as_u64().is_some_and(|checked| checked > 0),
            "{report}"
        );
        assert_eq!(of["differing"], 0, "{report}");
    }
}
