//! Configurations and damage of the tests of rebuilds.

use crate::reconcile::setup::{PARTITIONS, audit};
use crate::support::stores::TestStore;
use crate::support::{Countd, Settings, run, set_schema};
use countint_tests::{Client, Server, reply, wait_until};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

/// The field of reads in the schema of tests.
pub const READ: u16 = 0;

/// Starts `countd all` on a new store.
pub fn start(store: &TestStore, config: &str) -> Countd {
    set_schema(&store.server, config);
    let settings = Settings {
        command: "all",
        config,
    };
    Countd::with(&store.server, &settings)
}

/// A configuration that archives. Logs are trimmed soon, and nothing else corrects counters.
pub fn config(archive: &Path, more: &str) -> String {
    format!(
        "[limits]\nuser = {{ per_second = 100000, burst = 1000000 }}\n[log]\npartitions = {PARTITIONS}\nretain = 5\nretain_bytes = 1000\n\
         [log.archive]\ndir = \"{}\"\nflush_ms = 20\n[consumer]\nlinger_ms = 5\nbatch = 50\nsession_timeout_ms = 500\n\
         [reconcile]\nenabled = false\n{more}",
        archive.display()
    )
}

/// Runs `countd rebuild --json` with these arguments. Returns its output and the report.
pub fn rebuild(server: &Server, config: &str, arguments: &[&str]) -> (Output, Json) {
    let arguments = [&["rebuild", "--json"], arguments].concat();
    let output = run(server, config, &arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let report = serde_json::from_str(&text).unwrap_or(Json::Null);
    (output, report)
}

/// What the audit says of corrections by rebuilds: for each entity and metric the sum of differences.
pub fn corrections(store: &TestStore) -> BTreeMap<(String, String), i64> {
    let mut sums = BTreeMap::new();
    for entry in audit(store) {
        if entry.get("source").is_some_and(|source| source == "replay") {
            let of = (entry["eid"].clone(), entry["metric"].clone());
            let difference: i64 = entry["difference"].parse().expect("a number");
            *sums.entry(of).or_default() += difference;
        }
    }
    sums
}

/// Waits until everything that is counted is archived.
pub fn wait_until_archived(store: &TestStore) {
    let mut client = store.server.client();
    let read = |client: &mut Client, part: &str, partition: u16| {
        let tag = match store.is_cluster() {
            true => format!(":{{{partition}}}"),
            false => String::new(),
        };
        let stored = client.run(&format!("HGET x:cnt-update{tag}:{part} {partition}"));
        // Nothing was counted yet.
        stored.trim_matches('"').parse().unwrap_or(1_u64)
    };
    wait_until("all is archived", || {
        (0..PARTITIONS).all(|p| read(&mut client, "pos", p) == read(&mut client, "archive", p))
    });
}

/// The digest of the value of each key that is not a stream, a limit or a part of the state of countd.
pub fn digests(store: &TestStore) -> BTreeMap<String, String> {
    let mut client = store.server.client();
    let keys = reply::array(client.ok("KEYS *")).into_iter();
    let keys = keys.map(reply::text).filter(|key| {
        !["x:", "countd:", "act:limit:"]
            .iter()
            .any(|prefix| key.starts_with(prefix))
    });
    let keys: Vec<String> = keys.collect();
    let digest = |key: &String| {
        let digest = client.call(&["DEBUG", "DIGEST-VALUE", key]);
        (key.clone(), reply::format(&digest))
    };
    keys.iter().map(digest).collect()
}

/// The keys that a rebuild leaves.
pub fn leftovers(store: &TestStore) -> Vec<String> {
    let keys = reply::array(store.server.client().ok("KEYS *")).into_iter();
    let keys = keys.map(reply::text).filter(|key| {
        key.starts_with("shadow:") || key.starts_with("countd:rebuild") || key.ends_with(":hold")
    });
    keys.collect()
}
