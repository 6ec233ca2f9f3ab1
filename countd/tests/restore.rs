//! Backup and restore: yesterday's snapshot of Redis and the event archive give today's data.
//!
//! This is the runbook of docs/countd/operations.md.

use crate::groups::{Facts, act_in_groups};
use crate::model::other_fact_stores;
use crate::replay::setup::wait_until_archived as wait_until_counted_are_archived;
use crate::support::invariants::Invariants;
use crate::support::stores::{Snapshot, TestStore, module, objects, only_node, plain};
use crate::support::verify::assert_matches_model;
use crate::support::workload::{self, ACTIVITY, Random, WorkloadSize, run_clients};
use crate::support::{Api, Countd, Settings, on_note, printed, run, set_schema};
use crate::support::{wait_until_drained, with};
use countint_tests::env::TempDir;
use countint_tests::{Server, args, reply, wait_until};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

const PARTITIONS: u16 = 16;
const SIZE: WorkloadSize = WorkloadSize {
    clients: 6,
    users: 15,
    notes: 150,
    actions_per_client: 800,
    batch: 25,
    erasures: 0,
};

fn config(archive: &Path, metrics: &str) -> String {
    format!(
        "[limits]\nuser = {{ per_second = 100000, burst = 1000000 }}\n[log]\npartitions = {PARTITIONS}\nretain = 5\nretain_bytes = 1000\n\
         [log.archive]\ndir = \"{}\"\nflush_ms = 20\n[consumer]\nlinger_ms = 5\nbatch = 50\nsession_timeout_ms = 500\n{metrics}",
        archive.display()
    )
}

/// Waits until everything that is counted is archived.
fn wait_until_archived(server: &Server) {
    let mut client = server.client();
    let is_cluster = client.info("cluster")["cluster_enabled"] == "1";
    wait_until("all is archived", || {
        (0..PARTITIONS).all(|p| {
            let tag = if is_cluster {
                format!(":{{{p}}}")
            } else {
                String::new()
            };
            let mut read = |key: &str| client.run(&format!("HGET x:cnt-update{tag}:{key} {p}"));
            read("pos") == read("archive")
        })
    });
}

/// The digest of the value of each key of counters, authors and facts.
fn digests(server: &Server) -> BTreeMap<String, String> {
    let mut client = server.client();
    let keys = reply::array(client.ok("KEYS *")).into_iter();
    let keys: Vec<String> = keys.map(reply::text).collect();
    let is_data = |key: &String| {
        [
            "tab:",
            "utab:",
            "aut:",
            "auth:",
            "cnt:",
            "ucnt:",
            "rbm:",
            "s:",
            "bm:",
            "act:dedup:event",
            "h:agg:",
            "tot:",
            "toth:",
        ]
        .iter()
        .any(|prefix| key.starts_with(prefix))
    };
    let keys: Vec<String> = keys.into_iter().filter(is_data).collect();
    let digest = |key: &String| {
        let digest = client.call(&args!["DEBUG", "DIGEST-VALUE", key]);
        (key.clone(), reply::format(&digest))
    };
    keys.iter().map(digest).collect()
}

/// [`TestStore::start_from`], with append-only files from then on.
pub fn start_from_snapshot(store: &mut TestStore, snapshot: &Snapshot) {
    store.start_from(snapshot);
    store.server.client().ok("CONFIG SET appendonly yes");
}

/// Counts that are imported.
const IMPORTED: &str = "{\"etype\":\"note\",\"eid\":\"20050\",\"counts\":{\"read\":900,\"repost\":3}}\n\
    {\"etype\":\"note\",\"eid\":\"n-1\",\"counts\":{\"read\":5}}\n";

/// Runs `countd restore`, and kills it after some milliseconds.
fn kill_restore(server: &Server, config: &Path, after: u64) {
    let mut process = Command::new(env!("CARGO_BIN_EXE_countd"))
        .arg("--config")
        .arg(config)
        .arg("restore")
        .env(
            "COUNTD_REDIS__URL",
            format!("redis://127.0.0.1:{}/", server.port()),
        )
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("countd starts");
    let key = "countd:restore";
    let mut client = server.client();
    wait_until("the restore has begun", || {
        reply::int(client.ok(&format!("EXISTS {key}"))) == 1
            || process.try_wait().is_ok_and(|ended| ended.is_some())
    });
    thread::sleep(Duration::from_millis(after));
    // It may have ended.
    let _ = process.kill();
    process.wait().expect("a killed process can be waited for");
}

/// Erases an entity, and waits until it is done.
fn erase(api: &Api, path: &str) {
    let started = api.request_text("DELETE", path, &[], "");
    let job = started.header("location").to_owned();
    wait_until(
        "the entity is erased",
        || matches!(api.try_get(&job), Ok((200, text)) if text.contains("\"done\"")),
    );
}

/// Changes that no event makes, on notes and users of their own.
fn act_without_events(api: &Api, first: u64) {
    for eid in first..first + 10 {
        for uid in 8_000_001..=8_000_005_u64 {
            api.ok(api.post("/action/read", &on_note(eid, uid)));
            let liked = with(on_note(eid, uid), json!({ "author": 9_000_000 + eid }));
            api.ok(api.post("/action/like", &liked));
        }
    }
    let adjust = |eid: u64, change| {
        let body = json!({ "etype": "note", "eid": eid, "metric": "comment", "reason": "a test" });
        api.ok(api.post("/counter/adjust", &with(body, change)));
    };
    adjust(first, json!({ "add": 70 }));
    adjust(first, json!({ "add": -7 }));
    adjust(first + 1, json!({ "set": 12 }));
}

fn assert_restored(mut store: TestStore, metrics: &str) {
    let dir = TempDir::new();
    let text = config(&dir.path().join("archive"), metrics);
    let config = text.as_str();
    let file = dir.path().join("countd.toml");
    fs::write(&file, config).expect("written");
    set_schema(&store.server, config);
    let settings = |command| Settings { command, config };
    let mut processes =
        ["serve", "consume", "all"].map(|command| Countd::with(&store.server, &settings(command)));
    let apis = [processes[0].api(), processes[2].api()];
    let mut snapshot = None;
    let mut random = Random(7);
    act_without_events(&apis[0], 10_000);
    let model = run_clients(&apis, 5, SIZE, |progress| {
        progress.wait_for(SIZE.total() / 3);
        snapshot = Some(store.snapshot());
        act_without_events(&apis[1], 10_000);
        for kill in 1..=4 {
            progress.wait_for(SIZE.total() / 3 + kill * SIZE.total() / 10);
            let process = 1 + (kill % 2) as usize;
            processes[process].kill();
            thread::sleep(Duration::from_millis(random.below(30)));
            processes[process].launch();
        }
    });
    let snapshot = snapshot.expect("it was taken");
    let api = &apis[0];
    act_without_events(api, 20_000);
    let counts = dir.path().join("counts.ndjson");
    fs::write(&counts, IMPORTED).expect("written");
    let path = counts.to_str().expect("a path");
    let import = ["import", "counts", "--job", "old", "--mode", "add", path];
    printed(&run(&store.server, config, &import));
    for eid in 20_000..20_003 {
        let reset = json!({ "etype": "note", "eid": eid, "metric": "read" });
        api.ok(api.post("/counter/reset", &reset));
    }
    wait_until_drained(&store.server, PARTITIONS);
    let body = json!({ "uid": "9020000", "counter": ACTIVITY });
    let reset = api.ok(api.post("/relation/counter/reset", &body));
    assert_eq!(reset["was"], 5, "{reset}");
    erase(api, "/entity/note/20005");
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_archived(&store.server);
    let expected = digests(&store.server);
    processes.iter_mut().for_each(Countd::stop);
    let verified = printed(&run(&store.server, config, &["archive", "verify"]));
    assert!(verified.contains(" entries"), "{verified}");

    start_from_snapshot(&mut store, &snapshot);
    let old = digests(&store.server);
    assert_ne!(old, expected, "the snapshot is older");
    kill_restore(&store.server, &file, 20);
    let refused = run(&store.server, config, &["dead", "list"]);
    let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(errors.contains("countd restore"), "{errors}");
    kill_restore(&store.server, &file, 150);
    kill_restore(&store.server, &file, 400);
    let restored = printed(&run(&store.server, config, &["restore"]));
    assert!(restored.starts_with("restored"), "{restored}");
    processes.iter_mut().for_each(Countd::launch);
    // What was erased since the snapshot is erased again.
    erase(&apis[1], "/entity/note/20005");
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_archived(&store.server);
    let found = digests(&store.server);
    // What was imported is in `before` in life, and in the day of the import after a restore.
    let is_imported = |key: &str| {
        let of_imported = [":note:20050", ":note:n-1"];
        key.starts_with("h:agg:") && of_imported.iter().any(|part| key.contains(part))
    };
    for (key, digest) in &expected {
        if !is_imported(key) {
            assert_eq!(found.get(key), Some(digest), "{key}");
        }
    }
    let is_of_days = |key: &&String| key.starts_with("h:agg:") || key.starts_with("tot");
    assert!(expected.keys().filter(is_of_days).count() > 100);
    assert_matches_model(&apis[1], &model, SIZE);
    // It was reset.
    let invariants = Invariants::new([&store.server], config).without(ACTIVITY);
    invariants.assert();
    assert_eq!(printed(&run(&store.server, config, &["dead", "list"])), "");
    // The restored data has an archive that continues.
    let verified = printed(&run(&store.server, config, &["archive", "verify"]));
    assert!(verified.contains(" entries"), "{verified}");
}

/// Events of groups that are later than the snapshot, and the rebuild of what the archive has.
#[test]
fn groups_are_restored_and_rebuilt_from_the_archive() {
    let mut store = module();
    let dir = TempDir::new();
    let config = config(&dir.path().join("archive"), "");
    let settings = Settings {
        command: "all",
        config: &config,
    };
    set_schema(&store.server, &config);
    let mut countd = Countd::with(&store.server, &settings);
    let api = countd.api();
    let mut facts = Facts::new();
    act_in_groups(&store, &api, &mut facts);
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_counted_are_archived(&store);
    let snapshot = store.snapshot();
    // Some are counted before and some after the last offset of the snapshot.
    act_in_groups(&store, &api, &mut facts);
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_counted_are_archived(&store);
    let rebuild = ["rebuild", "--from", "earliest"];
    printed(&run(&store.server, &config, &rebuild));
    Invariants::new([&store.server], &config).assert();
    let expected = digests(&store.server);
    countd.stop();
    start_from_snapshot(&mut store, &snapshot);
    assert_ne!(digests(&store.server), expected, "the snapshot is older");
    let restored = printed(&run(&store.server, &config, &["restore"]));
    assert!(restored.starts_with("restored"), "{restored}");
    countd.launch();
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(digests(&store.server), expected);
    Invariants::new([&store.server], &config).assert();
}

#[test]
fn yesterdays_snapshot_and_the_archive_give_todays_counts() {
    assert_restored(module(), &workload::metrics());
}

#[test]
fn yesterdays_snapshot_and_the_archive_give_todays_counts_as_objects() {
    assert_restored(objects(), &workload::metrics());
}

#[test]
fn yesterdays_snapshot_and_the_archive_give_todays_counts_without_the_module() {
    assert_restored(plain(), &workload::metrics());
}

#[test]
fn yesterdays_snapshot_and_the_archive_give_todays_counts_with_other_fact_stores() {
    assert_restored(module(), &other_fact_stores());
}

#[test]
fn yesterdays_snapshot_and_the_archive_give_todays_counts_in_cluster_mode() {
    // Snapshots of several nodes under load are of different moments: sums over slots would differ by what was under way.
    assert_restored(only_node(), &workload::metrics());
}
