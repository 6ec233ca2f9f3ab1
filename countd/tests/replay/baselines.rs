//! Baselines replace what the archive does not have any more.

use super::setup::{READ, config, corrections, leftovers, rebuild, start, wait_until_archived};
use crate::reconcile::setup::{PARTITIONS, forge};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::verify::assert_matches_model;
use crate::support::workload::{self, WorkloadSize, run_clients};
use crate::support::{printed, run, wait_until_drained};
use countint_tests::env::TempDir;
use countint_tests::wait_until;

const SIZE: WorkloadSize = WorkloadSize {
    clients: 4,
    users: 15,
    notes: 60,
    actions_per_client: 800,
    batch: 25,
    erasures: 0,
};

for_each_store! {
    [module plain cluster]
    a_rebuild_from_a_baseline_needs_only_later_entries
}

fn a_rebuild_from_a_baseline_needs_only_later_entries(store: TestStore) {
    let dir = TempDir::new();
    let archive = dir.path().join("archive");
    let config = &config(&archive, &workload::metrics());
    let mut countd = start(&store, config);
    let apis = [countd.api()];
    let (mut name, mut lines) = (String::new(), 0);
    let index = archive.join("index");
    let model = run_clients(&apis, 3, SIZE, |progress| {
        progress.wait_for(SIZE.total() / 3);
        // The archive begins after the first batch, and the rebuild below needs a part that can be lost.
        wait_until("entries are archived", || {
            let text = std::fs::read_to_string(&index).unwrap_or_default();
            lines = text.lines().count();
            lines > 0
        });
        let taken = printed(&run(&store.server, config, &["archive", "baseline"]));
        name = taken.split(':').next().expect("a name").to_owned();
    });
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_archived(&store);
    let listed = printed(&run(&store.server, config, &["archive", "list"]));
    assert!(listed.contains(&name), "{listed}");
    let verified = printed(&run(&store.server, config, &["archive", "verify"]));
    assert!(verified.contains(&name), "{verified}");
    // The archive loses what is older than the baseline. No process appends to the index meanwhile.
    countd.stop();
    let text = std::fs::read_to_string(&index).expect("an index");
    let newer: Vec<&str> = text.lines().skip(lines).collect();
    std::fs::write(&index, newer.join("\n") + "\n").expect("written");
    countd.launch();
    let (refused, _) = rebuild(&store.server, config, &["--from", "earliest"]);
    assert!(!refused.status.success(), "{refused:?}");
    for note in 0..10 {
        forge(&store, &format!("note:{note}"), READ, 700);
    }
    let (output, report) = rebuild(&store.server, config, &["--restart", "--from", &name]);
    printed(&output);
    assert_eq!(report["metrics"]["read"]["corrected"], 10, "{report}");
    let corrected = corrections(&store);
    assert!(
        corrected.values().all(|difference| *difference == -700),
        "{corrected:?}"
    );
    wait_until_drained(&store.server, PARTITIONS);
    assert_matches_model(&apis[0], &model, SIZE);
    assert_eq!(leftovers(&store), [""; 0]);
}
