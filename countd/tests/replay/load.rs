//! Rebuilds while clients act and processes are killed.

use super::setup::{READ, config, corrections, leftovers, rebuild, wait_until_archived};
use crate::reconcile::setup::{PARTITIONS, forge};
use crate::support::Running;
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::verify::assert_matches_model;
use crate::support::workload::{self, Random, WorkloadSize, run_clients};
use crate::support::{Countd, Settings, printed, set_schema, wait_until_drained};
use countint_tests::env::TempDir;
use std::thread;
use std::time::Duration;

const SIZE: WorkloadSize = WorkloadSize {
    clients: 6,
    users: 15,
    notes: 100,
    actions_per_client: 1_500,
    batch: 25,
    erasures: 0,
};

/// The same with fewer actions.
const SMALL: WorkloadSize = WorkloadSize {
    actions_per_client: 500,
    ..SIZE
};

for_each_store! {
    [module objects plain cluster]
    rebuild_while_clients_act
}

/// Rebuilds never change a right counter, and correct wrong ones exactly, whatever is killed.
fn rebuild_while_clients_act(mut store: TestStore) {
    let size = store.full_or(SIZE, SMALL);
    let dir = TempDir::new();
    let archive = dir.path().join("archive");
    let config = &config(&archive, &workload::metrics());
    set_schema(&store.server, config);
    let settings = |command| Settings { command, config };
    let mut processes =
        ["serve", "consume", "all"].map(|command| Countd::with(&store.server, &settings(command)));
    let apis = [processes[0].api(), processes[2].api()];
    let mut random = Random(11);
    let mut forged = 0;
    let model = run_clients(&apis, 11, size, |progress| {
        let slice = size.total() / 10;
        for step in 1..=8 {
            progress.wait_for(step * slice);
            match step {
                // The rebuild is killed at any moment.
                1..=3 => {
                    let arguments = ["rebuild", "--from", "earliest"];
                    let running = Running::start(&store.server, config, &arguments);
                    thread::sleep(Duration::from_millis(40 + random.below(250)));
                    running.kill();
                }
                4 => store.restart(),
                5 => {
                    processes[1].kill();
                    processes[1].launch();
                }
                // Nothing was wrong so far.
                6 => {
                    let (output, report) = rebuild(&store.server, config, &["--from", "earliest"]);
                    printed(&output);
                    assert_eq!(report["metrics"]["read"]["differing"], 0, "{report}");
                    assert_eq!(report["metrics"]["comment"]["differing"], 0, "{report}");
                }
                _ => {
                    for note in 0..10 {
                        let entity = format!("note:{}", note + 10 * step);
                        forge(&store, &entity, READ, 5_000);
                        forged += 1;
                    }
                    let arguments = ["rebuild", "--from", "earliest"];
                    let running = Running::start(&store.server, config, &arguments);
                    thread::sleep(Duration::from_millis(40 + random.below(250)));
                    running.kill();
                    let (output, _) = rebuild(&store.server, config, &arguments[1..]);
                    printed(&output);
                }
            }
        }
    });
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_archived(&store);
    let corrected = corrections(&store);
    assert!(
        corrected.values().all(|difference| *difference == -5_000),
        "{corrected:?}"
    );
    assert_eq!(corrected.len(), forged);
    assert_matches_model(&apis[1], &model, size);
    assert_invariants(&store.server, config);
    assert_eq!(leftovers(&store), [""; 0]);
    let (output, report) = rebuild(&store.server, config, &["--from", "earliest", "--dry-run"]);
    printed(&output);
    assert_eq!(report["metrics"]["read"]["differing"], 0, "{report}");
}
