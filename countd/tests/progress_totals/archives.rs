//! Commands that read the event archive.

use crate::json_output::{Printed, with_json};
use crate::reconcile::setup::PARTITIONS;
use crate::replay::setup::{config, start, wait_until_archived};
use crate::restore::start_from_snapshot;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Countd, on_note, wait_until_drained, with};
use countint_tests::env::TempDir;
use serde_json::json;
use std::fs;

const METRICS: &str = "[metrics.read]\nnature = \"repeatable\"\ncount = \"batched\"\n[metrics.like]\nnature = \"once\"\ncount = \"batched\"\n";

for_each_store! {
    [module plain cluster]
    baselines_are_read_by_bytes
    a_restore_says_how_many_entries_are_counted
}

/// Lets users like these notes and read them, and gives them another author. Waits until all is archived.
fn act(store: &TestStore, countd: &Countd, notes: std::ops::Range<u64>) {
    for note in notes {
        let liked = with(on_note(note, 1), json!({ "author": "7" }));
        let api = countd.api();
        api.act("like", liked);
        api.act("read", on_note(note, 2));
        let other = json!({ "author": "8" });
        api.ok(api.put(&format!("/entity/note/{note}"), &other));
    }
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_archived(store);
}

/// Asserts that a step has read this many bytes. Returns the number of entities.
#[track_caller]
fn assert_bytes(printed: &Printed, step: &str, bytes: u64) -> Option<u64> {
    let done = printed.completed(step);
    assert_eq!(
        (&done["unit"], &done["total"]),
        (&json!("bytes"), &json!(bytes))
    );
    done["entities"].as_u64()
}

fn baselines_are_read_by_bytes(store: TestStore) {
    let dir = TempDir::new();
    let archive = dir.path().join("archive");
    let config = config(&archive, METRICS);
    let countd = start(&store, &config);
    let json = |words: &[&str]| with_json(&store, &config, words);
    let mut names = Vec::new();
    for notes in [1..40, 40..60] {
        act(&store, &countd, notes);
        let taken = json(&["archive", "baseline"]);
        let name = taken.report()["name"].as_str().expect("a name");
        names.push(name.to_owned());
    }
    act(&store, &countd, 60..70);
    let sizes: Vec<u64> = names
        .iter()
        .map(|name| fs::metadata(archive.join(name)).expect("a file").len())
        .collect();
    let verified = json(&["archive", "verify"]);
    let entities = assert_bytes(&verified, "reading baselines", sizes.iter().sum());
    assert_eq!(entities, Some(39 + 59));
    let baselines = &verified.report()["baselines"];
    assert_eq!(baselines[1], json!({ "name": names[1], "entities": 59 }));
    assert_eq!(verified.completed("reading")["unit"], "chunks");
    let rebuilt = json(&["rebuild", "--from", &names[1]]);
    rebuilt.report();
    let entities = assert_bytes(&rebuilt, "reading the baseline", sizes[1]);
    assert_eq!(entities, Some(59));
    let pruned = json(&["archive", "prune", "--before", &names[1]]);
    assert_eq!(pruned.report()["baselines"], 1);
    assert_bytes(&pruned, "reading the baseline", sizes[1]);
    let files = &pruned.report()["segments"].as_u64().expect("a number") + 1;
    assert_eq!(pruned.completed("deleting files")["total"], files);
}

fn a_restore_says_how_many_entries_are_counted(mut store: TestStore) {
    let dir = TempDir::new();
    let config = config(&dir.path().join("archive"), METRICS);
    let mut countd = start(&store, &config);
    act(&store, &countd, 1..10);
    let snapshot = store.snapshot();
    act(&store, &countd, 10..50);
    countd.stop();
    start_from_snapshot(&mut store, &snapshot);
    let restored = with_json(&store, &config, &["restore"]);
    restored.report();
    assert_eq!(restored.completed("applying")["unit"], "chunks");
    let step = "counting the rest of the logs";
    let rest = restored.completed(step);
    assert_eq!(rest["unit"], "entries");
    // The new author of each note is an entry of the log again.
    assert!(rest["total"].as_u64() >= Some(40), "{rest}");
    let progress = restored.errors.iter().map(|line| &line["progress"]);
    let first = progress.clone().find(|progress| progress["step"] == step);
    assert_eq!(first.map(|first| &first["done"]), Some(&json!(0)));
}
