//! `countd reconcile`.

use super::setup::{LIKE, NO_ROUNDS, PARTITIONS, config, differences, forge};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Countd, on_note, printed, run, wait_until_drained};
use serde_json::Value as Json;

for_each_store! {
    [module objects plain cluster]
    a_dry_run_reports_and_changes_nothing
}

fn a_dry_run_reports_and_changes_nothing(store: TestStore) {
    let config = &config("batched", NO_ROUNDS);
    let countd = Countd::start(&store.server, config);
    let api = countd.api();
    for uid in 1..4 {
        api.act("like", on_note(1, uid));
        api.act("fav", on_note(2, uid));
    }
    wait_until_drained(&store.server, PARTITIONS);
    forge(&store, "note:1", LIKE, 4);
    forge(&store, "note:2", 2, 6);
    let report = |arguments: &[&str]| {
        let output = run(&store.server, config, arguments);
        let json: Json = serde_json::from_slice(&output.stdout).expect("JSON");
        (output.status.code(), json)
    };
    let (status, dry) = report(&["reconcile", "--all", "--dry-run", "--json"]);
    assert_eq!(status, Some(3), "{dry}");
    for (metric, difference) in [("like", 4), ("fav", 6)] {
        let of = &dry["metrics"][metric];
        assert_eq!(of["largest"], difference, "{dry}");
        assert_eq!(of["corrected"], 0, "{dry}");
    }
    assert_eq!(api.counts(1)["like"], 7);
    assert_eq!(api.counts(2)["fav"], 9);
    assert!(differences(&store).is_empty());
    let (status, all) = report(&["reconcile", "--all", "--json"]);
    assert_eq!(status, Some(0), "{all}");
    assert_eq!(all["metrics"]["fav"]["corrected"], 1, "{all}");
    // A sweep meets an entity more than once. Its later checks find a right counter, and do not replace what the first one has reported.
    assert_eq!(all["metrics"]["like"]["corrected"], 1, "{all}");
    assert_eq!(api.counts(1)["like"], 3);
    assert_eq!(api.counts(2)["fav"], 3);
    forge(&store, "note:2", 2, 7);
    let output = run(&store.server, config, &["reconcile", "--all"]);
    let table = printed(&output);
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let row = |metric: &str| rows.iter().find(|row| row[0] == metric).expect("a row");
    let header = [
        "compared",
        "differing",
        "corrected",
        "difference",
        "largest",
        "unchecked",
    ];
    assert_eq!(row("metric")[1..], header);
    assert_eq!(row("fav")[2..], ["1", "1", "7", "7", "0"], "{table}");
    assert_eq!(row("like")[2..], ["0", "0", "0", "0", "0"], "{table}");
    // Stderr is no terminal.
    let progress = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut lines = progress.lines();
    let is_of_step = |line: &str| line.starts_with("comparing: ") && line.contains(" of ");
    assert!(lines.any(is_of_step), "{progress}");
    let unknown = run(&store.server, config, &["reconcile", "--entity", "x", "1"]);
    assert_eq!(unknown.status.code(), Some(1));
}
