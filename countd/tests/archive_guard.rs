//! An archive is written only by its own data, and not by data that is older than it. It can be pruned.

use crate::archive::{PARTITIONS, config, records, wait_until_archived};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{Snapshot, TestStore, for_each_store, module};
use crate::support::{Api, Countd, metric, on_note, printed, run, set_schema, wait_until_drained};
use countint_tests::env::TempDir;
use countint_tests::{Value, reply, wait_until};
use std::fs;
use std::path::{Path, PathBuf};

for_each_store! {
    [module plain cluster]
    older_data_is_refused_until_it_is_restored
}

/// Data with an archive that has 10 events that are not in a snapshot.
struct Archived {
    store: TestStore,
    countd: Countd,
    config: String,
    archive: PathBuf,
    snapshot: Snapshot,
    _dir: TempDir,
}

fn read(store: &TestStore, api: &Api, users: std::ops::Range<u64>) {
    for uid in users {
        api.ok(api.post("/action/read", &on_note(1, uid)));
    }
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_archived(store);
}

fn archived(store: TestStore) -> Archived {
    let dir = TempDir::new();
    let archive = dir.path().join("archive");
    let config = config(&archive);
    set_schema(&store.server, &config);
    let countd = Countd::start(&store.server, &config);
    read(&store, &countd.api(), 0..10);
    let snapshot = store.snapshot();
    read(&store, &countd.api(), 10..20);
    assert_eq!(records(&archive).len(), 20);
    Archived {
        store,
        countd,
        config,
        archive,
        snapshot,
        _dir: dir,
    }
}

impl Archived {
    /// Starts Redis from the snapshot, as if that had been taken a minute earlier. No process may run meanwhile.
    fn go_back(&mut self) {
        self.store.start_from(&self.snapshot);
        let mut client = self.store.server.client();
        let keys: Vec<String> = match self.store.is_cluster() {
            true => (0..PARTITIONS)
                .map(|partition| format!("x:cnt-update:{{{partition}}}:archive"))
                .collect(),
            false => vec!["x:cnt-update:archive".to_owned()],
        };
        let mut times = 0;
        for key in keys {
            // Each node has the time once.
            let at = client.call(&["HGET", &key, "at"]);
            if at == Value::Nil {
                continue;
            }
            let at: u64 = reply::text(at).parse().expect("a time");
            client.call(&["HSET", &key, "at", &(at - 60_000).to_string()]);
            times += 1;
        }
        assert!(times > 0);
    }

    fn errors(&self, arguments: &[&str]) -> String {
        let output = run(&self.store.server, &self.config, arguments);
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

fn older_data_is_refused_until_it_is_restored(store: TestStore) {
    let mut data = archived(store);
    data.countd.stop();
    data.go_back();
    for command in ["consume", "all"] {
        let errors = data.errors(&[command]);
        assert!(errors.contains("countd restore"), "{errors}");
    }
    assert_eq!(records(&data.archive).len(), 20);
    printed(&run(&data.store.server, &data.config, &["restore"]));
    data.countd.launch();
    let api = data.countd.api();
    assert_eq!(api.counts(1)["read"], 20);
    read(&data.store, &api, 20..23);
    assert_eq!(records(&data.archive).len(), 23);
    assert_invariants(&data.store.server, &data.config);
}

#[test]
fn the_loss_of_what_only_the_archive_has_can_be_accepted() {
    let mut data = archived(module());
    data.countd.stop();
    data.go_back();
    data.errors(&["consume"]);
    let accept = ["archive", "accept-loss"];
    printed(&run(&data.store.server, &data.config, &accept));
    data.countd.launch();
    let api = data.countd.api();
    assert_eq!(api.counts(1)["read"], 10);
    read(&data.store, &api, 30..33);
    assert_eq!(records(&data.archive).len(), 13);
}

/// countd does not notice when Redis is replaced.
#[test]
fn a_running_archiver_does_not_replace_what_is_newer() {
    let mut data = archived(module());
    data.countd.suspend();
    data.go_back();
    data.countd.resume();
    let api = data.countd.api();
    let act = || {
        let sent = api.try_post("/action/read", &on_note(1, 50).to_string());
        matches!(sent, Ok((200, _)))
    };
    wait_until("countd is connected again", act);
    wait_until("the archive is stalled", || {
        metric(&api, "countd_archive_failed") == 1
    });
    let (_, text) = api.try_get("/readyz").expect("a response");
    assert!(text.contains("countd restore"), "{text}");
    assert_eq!(records(&data.archive).len(), 20);
    let accept = ["archive", "accept-loss"];
    printed(&run(&data.store.server, &data.config, &accept));
    wait_until_drained(&data.store.server, PARTITIONS);
    wait_until_archived(&data.store);
    let left = records(&data.archive).len();
    assert!((11..20).contains(&left), "{left}");
}

#[test]
fn an_archive_of_other_data_is_refused() {
    let mut data = archived(module());
    data.countd.stop();
    let other = module();
    set_schema(&other.server, &data.config);
    for command in [&["consume"][..], &["rebuild", "--from", "earliest"]] {
        let refused = run(&other.server, &data.config, command);
        let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success(), "{command:?}");
        let is_explained = errors.contains("other data") || command[0] == "rebuild";
        assert!(is_explained, "{errors}");
    }
    let own = config(&data.archive.with_file_name("own"));
    let countd = Countd::start(&other.server, &own);
    read(&other, &countd.api(), 0..1);
    let dir = data.archive.to_str().expect("a path");
    let arguments = ["rebuild", "--from", "earliest", "--archive", dir];
    let refused = run(&other.server, &own, &arguments);
    let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(errors.contains("other data"), "{errors}");
    let refused = run(&other.server, &own, &["restore", "--archive", dir]);
    assert!(!refused.status.success());
    assert_eq!(records(&data.archive).len(), 20);
    // Its own data goes on.
    data.countd.launch();
    read(&data.store, &data.countd.api(), 20..22);
    assert_eq!(records(&data.archive).len(), 22);
}

/// The files of segments.
fn segments(dir: &Path) -> usize {
    let files = fs::read_dir(dir).expect("a directory");
    let names = files.map(|file| file.expect("a file").file_name());
    names
        .filter(|name| name.to_string_lossy().ends_with(".seg"))
        .count()
}

/// Everything is pruned while a process has a segment to which it has written.
#[test]
fn a_pruned_archive_goes_on_from_a_baseline() {
    let mut data = archived(module());
    let command = |arguments: &[&str]| run(&data.store.server, &data.config, arguments);
    let baseline = printed(&command(&["archive", "baseline"]));
    let list = printed(&command(&["archive", "list"]));
    let name = list.lines().find_map(|line| line.strip_prefix("baseline "));
    let name = name.unwrap_or_else(|| panic!("{baseline} {list}"));
    let prune = |before: &str| printed(&command(&["archive", "prune", "--before", before]));
    assert!(prune("1990-01-01").starts_with("deleted 0 chunks, 0 segments"));
    let deleted = prune(name);
    assert!(deleted.contains("1 segments and 0 baselines"), "{deleted}");
    assert_eq!(segments(&data.archive), 0);
    let verified = printed(&command(&["archive", "verify"]));
    assert!(verified.contains("0 chunks with 0 entries"), "{verified}");
    let api = data.countd.api();
    read(&data.store, &api, 20..25);
    assert_eq!(segments(&data.archive), 1);
    let verified = printed(&command(&["archive", "verify"]));
    assert!(verified.contains("with 5 entries"), "{verified}");
    let earliest = command(&["rebuild", "--from", "earliest"]);
    let errors = String::from_utf8_lossy(&earliest.stderr).into_owned();
    assert!(errors.contains("BASELINE"), "{errors}");
    // The baseline has what was pruned.
    data.store.server.client().call(&[
        "CTAB.SET",
        &data.store.counters("v1", "note:1", PARTITIONS),
        "1",
        "0",
        "3",
    ]);
    printed(&command(&["rebuild", "--from", name, "--restart"]));
    assert_eq!(api.counts(1)["read"], 25);
    // A restore of the snapshot would lack entries.
    data.countd.stop();
    data.go_back();
    let errors = data.errors(&["restore"]);
    assert!(errors.contains("lacks the offsets 11 to 20"), "{errors}");
}
