//! The event archive: every counted entry is archived, once, before its log is trimmed.

use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store, module};
use crate::support::{
    Countd, Settings, metric, on_note, printed, run, set_schema, wait_until_drained,
};
use countd::log::archive::{Archive, Outcome, Record};
use countint_tests::env::TempDir;
use countint_tests::{Client, reply, wait_until};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

pub(crate) const PARTITIONS: u16 = 4;

for_each_store! {
    [module plain cluster]
    archives_survive_kills
}

pub(crate) fn config(dir: &Path) -> String {
    format!(
        "[log]\npartitions = {PARTITIONS}\nretain = 2\nretain_bytes = 300\n[log.archive]\ndir = \"{}\"\nflush_ms = 10\n\
         [consumer]\nlinger_ms = 1\nsession_timeout_ms = 500\n",
        dir.display()
    )
}

/// All records, by partition and offset.
pub(crate) fn records(dir: &Path) -> BTreeMap<(u16, u64), Record> {
    let archive = Archive::open(dir).expect("an archive");
    let mut all = BTreeMap::new();
    for at in 0..archive.len() {
        for record in archive.read(at).expect("a chunk") {
            let at = (record.partition, record.entry.offset);
            assert!(all.insert(at, record).is_none(), "{at:?} is read twice");
        }
    }
    for (partition, coverage) in &archive.coverage {
        coverage.check_from(*partition, 1).expect("no gap");
    }
    all
}

fn position(store: &TestStore, client: &mut Client, key: &str, partition: u16) -> u64 {
    let tag = match store.is_cluster() {
        true => format!(":{{{partition}}}"),
        false => String::new(),
    };
    let stored = client.run(&format!("HGET x:cnt-update{tag}:{key} {partition}"));
    stored.trim_matches('"').parse().unwrap_or(1)
}

pub(crate) fn wait_until_archived(store: &TestStore) {
    let mut client = store.server.client();
    wait_until("all is archived", || {
        (0..PARTITIONS).all(|p| {
            position(store, &mut client, "pos", p) == position(store, &mut client, "archive", p)
        })
    });
}

/// Each entry is archived once, whatever is killed.
fn archives_survive_kills(mut store: TestStore) {
    let dir = TempDir::new();
    let archive = dir.path().join("archive");
    let config = config(&archive);
    set_schema(&store.server, &config);
    let settings = |command| Settings {
        command,
        config: &config,
    };
    let mut processes =
        ["all", "consume"].map(|command| Countd::with(&store.server, &settings(command)));
    let api = processes[0].api();
    for round in 0..8_u64 {
        for uid in 0..40 {
            api.ok(api.post("/action/read", &on_note(round, 100 * round + uid)));
        }
        match round % 4 {
            0 => processes[1].kill(),
            1 => processes[1].launch(),
            2 => store.restart(),
            _ => {
                processes[0].kill();
                processes[0].launch();
            }
        }
    }
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_archived(&store);
    let records = records(&archive);
    let mut client = store.server.client();
    let counted: u64 = (0..PARTITIONS)
        .map(|p| position(&store, &mut client, "pos", p) - 1)
        .sum();
    assert_eq!(records.len() as u64, counted);
    assert_eq!(records.len(), 320);
    assert!(
        records
            .values()
            .all(|record| record.outcome == Outcome::Counted)
    );
    let verified = printed(&run(&store.server, &config, &["archive", "verify"]));
    assert!(verified.contains("with 320 entries"), "{verified}");
    assert_invariants(&store.server, &config);
}

/// While the directory cannot be written, counting goes on and the logs keep all entries.
#[test]
fn nothing_is_trimmed_before_it_is_archived() {
    let store = module();
    let dir = TempDir::new();
    let archive = dir.path().join("archive");
    // A file in place of the directory.
    fs::write(&archive, "").expect("written");
    let config = config(&archive);
    let countd = Countd::start(&store.server, &config);
    let api = countd.api();
    for uid in 0..120 {
        api.ok(api.post("/action/read", &on_note(uid % 7, uid)));
    }
    wait_until_drained(&store.server, PARTITIONS);
    let mut client = store.server.client();
    let mut length = || -> i64 {
        let lengths =
            (0..PARTITIONS).map(|p| reply::int(client.ok(&format!("XLEN x:cnt-update:{p}"))));
        lengths.sum()
    };
    assert_eq!(length(), 120, "all entries are kept");
    fs::remove_file(&archive).expect("removed");
    wait_until_archived(&store);
    assert_eq!(records(&archive).len(), 120);
    wait_until("the logs are trimmed", || length() < 60);
}

/// Counting goes on without the archive, so the process stays ready.
#[test]
fn readyz_names_a_stalled_archive() {
    let store = module();
    let dir = TempDir::new();
    let archive = dir.path().join("archive");
    fs::write(&archive, "").expect("a file in place of the directory");
    let countd = Countd::start(&store.server, &config(&archive));
    let api = countd.api();
    api.ok(api.post("/action/read", &on_note(1, 7)));
    wait_until_drained(&store.server, PARTITIONS);
    let readyz = || api.try_get("/readyz").expect("a response");
    wait_until("readyz names the error", || {
        let (status, text) = readyz();
        assert_eq!(status, 200, "{text}");
        text.contains("\nthe archive is stalled: ")
    });
    assert_eq!(metric(&api, "countd_archive_failed"), 1);
    assert_eq!(api.counts(1)["read"], 1);
    fs::remove_file(&archive).expect("removed");
    wait_until("the archive is written", || {
        readyz() == (200, "ready\n".to_owned())
    });
    assert_eq!(metric(&api, "countd_archive_failed"), 0);
    wait_until_archived(&store);
    assert_eq!(records(&archive).len(), 1);
}

/// What was counted before the log had an archive is archived as far as the log has it.
#[test]
fn an_archive_begins_with_the_entries_that_the_log_retains() {
    let store = module();
    let dir = TempDir::new();
    let archive = dir.path().join("archive");
    let config = config(&archive).replace("retain_bytes = 300", "retain_bytes = 100000");
    let (without_archive, _) = config.split_once("[log.archive]").expect("the setting");
    {
        let countd = Countd::start(&store.server, without_archive);
        let api = countd.api();
        for uid in 1..=2 {
            api.ok(api.post("/action/read", &on_note(1, uid)));
        }
        wait_until_drained(&store.server, PARTITIONS);
    }
    let _countd = Countd::start(&store.server, &config);
    wait_until_archived(&store);
    assert_eq!(records(&archive).len(), 2);
}

/// Entries that were not counted are archived with their outcome.
#[test]
fn outcomes_are_archived() {
    let store = module();
    let dir = TempDir::new();
    let archive = dir.path().join("archive");
    let config = config(&archive);
    let countd = Countd::start(&store.server, &config);
    let api = countd.api();
    let envelope = json!({
        "event_id": "e-1", "event_type": "read", "aggregate_type": "note", "aggregate_id": 1,
        "payload": { "delta": 1, "uid": 2 },
    });
    api.ok(api.post("/events", &envelope));
    let mut client = store.server.client();
    let partition = TestStore::partition("note:1", PARTITIONS);
    client.ok(&format!("XADD x:cnt-update:{partition} 0-* e nonsense"));
    let text = envelope.to_string();
    client.call(&[
        "XADD",
        &format!("x:cnt-update:{partition}"),
        "0-*",
        "o",
        &text,
    ]);
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_archived(&store);
    let outcomes: Vec<Outcome> = records(&archive).values().map(|r| r.outcome).collect();
    assert_eq!(
        outcomes,
        [Outcome::Counted, Outcome::Dead, Outcome::Duplicate]
    );
    let left = client.run(&format!("EXISTS x:cnt-update:{partition}:out-of-count"));
    assert_eq!(left, "(integer) 0");
}

/// Redis loses its last writes, and uses the offsets again.
#[test]
fn reused_offsets_replace_what_was_archived() {
    let mut store = module();
    let dir = TempDir::new();
    let archive = dir.path().join("archive");
    let config = config(&archive);
    let mut countd = Countd::start(&store.server, &config);
    let api = countd.api();
    let read = |from: u64| {
        for uid in from..from + 10 {
            api.ok(api.post("/action/read", &on_note(1, uid)));
        }
        wait_until_drained(&store.server, PARTITIONS);
        wait_until_archived(&store);
    };
    read(100);
    let snapshot = store.snapshot();
    read(200);
    assert_eq!(records(&archive).len(), 20);
    countd.kill();
    store.start_from(&snapshot);
    countd.launch();
    let api = countd.api();
    for uid in 300..305 {
        api.ok(api.post("/action/read", &on_note(1, uid)));
    }
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_archived(&store);
    let records = records(&archive);
    assert_eq!(records.len(), 15);
    let last = records.values().next_back().expect("a record");
    let payload = String::from_utf8_lossy(&last.entry.payload);
    assert!(payload.contains("\"304\""), "{payload}");
}

/// A process without the setting must not trim what is not archived.
#[test]
fn a_consumer_without_the_directory_is_refused() {
    let store = module();
    let dir = TempDir::new();
    let with_archive = config(&dir.path().join("archive"));
    let mut countd = Countd::start(&store.server, &with_archive);
    countd.stop();
    let without = format!("[log]\npartitions = {PARTITIONS}\n");
    let refused = run(&store.server, &without, &["consume"]);
    let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && errors.contains("log.archive.dir"),
        "{errors}"
    );
    printed(&run(&store.server, &without, &["archive", "end"]));
    let settings = Settings {
        command: "all",
        config: &without,
    };
    let countd = Countd::with(&store.server, &settings);
    let api = countd.api();
    api.ok(api.post("/action/read", &on_note(1, 1)));
    wait_until_drained(&store.server, PARTITIONS);
}
