//! Rankings after a restore from a snapshot and the archive.

use super::{PARTITIONS, TOP, act, assert_invariants, config, expected, items, wait_until_right};
use crate::replay::setup::wait_until_archived;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::workload::Random;
use crate::support::{Countd, Settings, printed, run, set_schema, wait_until_drained};
use countint_tests::env::TempDir;

for_each_store! {
    [module plain cluster]
    a_restored_ranking_is_exact
}

fn a_restored_ranking_is_exact(mut store: TestStore) {
    let dir = TempDir::new();
    let archive = dir.path().join("archive");
    let archive = format!(
        "[log.archive]\ndir = \"{}\"\nflush_ms = 20\n",
        archive.display()
    );
    let config = &format!("{}{archive}", config());
    set_schema(&store.server, config);
    let settings = Settings {
        command: "all",
        config,
    };
    let mut countd = Countd::with(&store.server, &settings);
    let api = countd.api();
    let mut random = Random(17);
    act(&api, &mut random, 300);
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_right(&api);
    let snapshot = store.snapshot();
    // Other notes come first than in the snapshot.
    for _ in 0..3 {
        act(&api, &mut random, 300);
    }
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_archived(&store);
    let before = wait_until_right(&api);
    let of_notes = expected(&api, before["day"].as_str().expect("a date"));
    countd.stop();
    store.start_from(&snapshot);
    printed(&run(&store.server, config, &["restore"]));
    countd.launch();
    let api = countd.api();
    wait_until_drained(&store.server, PARTITIONS);
    let after = wait_until_right(&api);
    if after["day"] == before["day"] {
        assert_eq!(
            expected(&api, after["day"].as_str().expect("a date")),
            of_notes
        );
        let scores = |page| items(page).into_iter().map(|(_, score)| score);
        assert!(scores(&after).eq(scores(&before)), "{after} {before}");
    }
    assert_eq!(items(&after).len(), TOP);
    // It goes on from there.
    act(&api, &mut random, 200);
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_right(&api);
    assert_invariants([&store.server], config);
}
