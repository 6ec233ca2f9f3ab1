//! Rebuilds that were interrupted.

use super::setup::{READ, config, corrections, rebuild, start, wait_until_archived};
use crate::reconcile::setup::{PARTITIONS, forge};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Running, on_note, printed, wait_until_drained};
use countint_tests::env::TempDir;
use serde_json::Value as Json;

for_each_store! {
    [module plain cluster]
    an_interrupted_dry_run_leaves_all_to_do
}

/// A dry run compares partitions, and corrects nothing: the rebuild after it must not leave them out.
fn an_interrupted_dry_run_leaves_all_to_do(store: TestStore) {
    let dir = TempDir::new();
    let config = &config(&dir.path().join("archive"), "");
    let mut countd = start(&store, config);
    let api = countd.api();
    for eid in 1..=20 {
        api.ok(api.post("/action/read", &on_note(eid, 7)));
    }
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_archived(&store);
    countd.stop();
    (1..=20).for_each(|eid| forge(&store, &format!("note:{eid}"), READ, 100));
    let dry = ["--from", "earliest", "--dry-run"];
    // It is killed while it compares, or when it has ended.
    let arguments = [&["rebuild"], &dry[..]].concat();
    let mut running = Running::start(&store.server, config, &arguments);
    running.wait_for_step("reading counters", 1);
    running.kill();
    // Another one ends at the last partition, whose log is damaged.
    let log = store.log(PARTITIONS - 1);
    let away = log.replace("x:cnt-update", "away");
    let mut client = store.server.client();
    let is_used = countint_tests::reply::int(client.ok(&format!("EXISTS {log}"))) == 1;
    if is_used {
        client.ok(&format!("RENAME {log} {away}"));
    }
    client.ok(&format!("SET {log} x"));
    let (output, _) = rebuild(&store.server, config, &dry);
    assert!(
        !output.status.success() && output.status.code() != Some(3),
        "{output:?}"
    );
    client.ok(&format!("DEL {log}"));
    if is_used {
        client.ok(&format!("RENAME {away} {log}"));
    }

    let (output, report) = rebuild(&store.server, config, &["--from", "earliest"]);
    printed(&output);
    let expected = |field: &str, count: u64| {
        assert_eq!(
            report["metrics"]["read"][field],
            Json::from(count),
            "{report}"
        );
    };
    expected("compared", 20);
    expected("corrected", 20);
    assert_eq!(corrections(&store).len(), 20);
    let (output, report) = rebuild(&store.server, config, &dry);
    printed(&output);
    assert_eq!(report["metrics"]["read"]["compared"], 20, "{report}");
    assert_eq!(report["metrics"]["read"]["differing"], 0, "{report}");
}
