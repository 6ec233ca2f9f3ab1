//! Erasing users, whose events the archive has, while `countd rebuild` runs.

use super::rebuilds::interrupt_rebuild;
use super::search::holders;
use super::{PARTITIONS, Setup, on, wait_until_done};
use crate::replay::setup::{config, corrections, leftovers, rebuild, wait_until_archived};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{dead_reasons, printed, run};
use countd::domain::config::Config;
use countd::domain::progress::{Progress, Update};
use countd::maintenance::rebuild::{Options, Report};
use countd::redis::layout::Purpose;
use countd::redis::store::Store;
use countint_tests::env::TempDir;
use countint_tests::wait_until;
use serde_json::json;
use std::path::Path;
use std::sync::{Arc, Mutex};

for_each_store! {
    [module objects plain cluster]
    a_rebuild_keeps_no_events_of_users
    an_erasure_deletes_no_entries_that_a_rebuild_reads
}

const METRICS: &str = r#"
[users]
counters = ["given"]
[metrics.read]
nature = "repeatable"
count = "batched"
[metrics.comment]
nature = "repeatable"
count = "now"
users = [{ counter = "given", of = "actor" }]
[metrics.publish]
nature = "once"
count = "never"
reverse = true
users = [{ counter = "posts", of = "actor" }]
"#;
/// IDs that no other text contains, and that have objects in every storage.
const ERASED: &str = "u-912345678901234567";
const ERASED_NOTE: &str = "n-812345678901234567";
/// Notes in all partitions.
const NOTES: u64 = 40;

/// A comment is counted at once, and its event becomes a dead letter twice. The rebuild stops when it has read the archive, and continues
/// after the erasure, which retries the dead letter.
fn a_rebuild_keeps_no_events_of_users(store: TestStore) {
    let dir = TempDir::new();
    let config = config(&dir.path().join("archive"), METRICS);
    let mut setup = Setup::new(store, &config);
    let mut client = setup.store.server.client();
    // In a cluster, an event changes the counters of users in its own slot.
    let partition = TestStore::partition(ERASED, PARTITIONS);
    let mut notes = (1..).map(|number: u64| number.to_string());
    let in_partition =
        |note: &String| TestStore::partition(&format!("note:{note}"), PARTITIONS) == partition;
    let note = &notes.find(in_partition).expect("a note");
    // The consumer cannot rebuild the counters, since the facts of `posts` hold another type, too.
    let form = if setup.store.has_module { "" } else { ":s" };
    let posts = format!("rtl:publish:note:{ERASED}{form}");
    let damaged = [
        setup.store.user_counters(ERASED, PARTITIONS),
        setup.store.key(&posts, "", ERASED),
    ];
    for key in &damaged {
        client.ok(&format!("RPUSH {key} x"));
    }
    setup.api.act("comment", on(note, ERASED));
    setup.api.act("comment", on(note, "5"));
    // The partition at which the rebuild stops.
    setup.api.act("read", on("1", "5"));
    setup.drain();
    assert_eq!(dead_reasons(&setup.store.server, &config).len(), 1);
    let retried = printed(&run(
        &setup.store.server,
        &config,
        &["dead", "retry", "--all"],
    ));
    assert!(retried.contains("1 retried"), "{retried}");
    setup.drain();
    assert_eq!(dead_reasons(&setup.store.server, &config).len(), 1);
    for key in &damaged {
        client.ok(&format!("DEL {key}"));
    }
    wait_until_archived(&setup.store);
    interrupt_rebuild(&mut setup, &config);
    setup.erase(&format!("/user/{ERASED}"));
    setup.drain();
    let found = holders(&mut client, ERASED);
    assert!(found.is_empty(), "{found:#?}");
    let (output, report) = rebuild(&setup.store.server, &config, &["--from", "earliest"]);
    printed(&output);
    assert_eq!(report["metrics"]["comment"]["differing"], 0, "{report}");
    assert_eq!(setup.note(note)["comment"], 2);
    let found = holders(&mut client, ERASED);
    assert!(found.is_empty(), "{found:#?}");
    assert_eq!(leftovers(&setup.store), [""; 0]);
}

/// While a rebuild compares counters, it reads the events since its hold from the logs. A user whose events these are is erased, and an
/// entity that clients use again.
fn an_erasure_deletes_no_entries_that_a_rebuild_reads(store: TestStore) {
    let dir = TempDir::new();
    let archive = dir.path().join("archive");
    let config = config(&archive, METRICS);
    let setup = Setup::new(store, &config);
    let read_all = |uid: &str| {
        for note in 1..=NOTES {
            setup.api.act("read", on(&note.to_string(), uid));
            setup.api.act("comment", on(&note.to_string(), uid));
        }
        setup.api.act("read", on(ERASED_NOTE, uid));
        setup.drain();
        wait_until_archived(&setup.store);
    };
    read_all("1");
    let mut jobs = Vec::new();
    let report = rebuild_with(&setup.store, &config, &archive, |step| {
        if step != "reading counters" || !jobs.is_empty() {
            return;
        }
        read_all(ERASED);
        for path in [
            format!("/user/{ERASED}"),
            format!("/entity/note/{ERASED_NOTE}"),
        ] {
            let job = setup.delete(&path);
            wait_until("the job waits for the rebuild", || {
                let status = setup.api.get(&job).1;
                status["state"] == "done" || status["error"].to_string().contains("a rebuild")
            });
            jobs.push(job);
        }
        // A new entity with the ID of the erased one.
        for uid in ["1", "2"] {
            setup.api.act("read", on(ERASED_NOTE, uid));
        }
        setup.drain();
        wait_until_archived(&setup.store);
    });
    for (metric, of) in report.metrics {
        assert_eq!((of.differing, of.compared), (0, NOTES + 1), "{metric}");
    }
    for job in &jobs {
        wait_until_done(&setup.api, job);
    }
    setup.drain();
    assert!(corrections(&setup.store).is_empty());
    let found = holders(&mut setup.store.server.client(), ERASED);
    assert!(found.is_empty(), "{found:#?}");
    for note in 1..=NOTES {
        let counts = setup.note(&note.to_string());
        assert_eq!(counts["read"], 2, "{note}");
        assert_eq!(counts["comment"], 2, "{note}");
    }
    assert_eq!(setup.note(ERASED_NOTE)["read"], 2);
    // The archive has the events of the user.
    wait_until_archived(&setup.store);
    let (output, report) = rebuild(&setup.store.server, &config, &["--from", "earliest"]);
    printed(&output);
    assert_eq!(report["metrics"]["read"]["differing"], 0, "{report}");
    let found = holders(&mut setup.store.server.client(), ERASED);
    assert_eq!(json!(found), json!([]));
}

/// Calls a function with each step.
struct AtStep<F>(Mutex<F>);

impl<F: FnMut(&str) + Send> Progress for AtStep<F> {
    fn update(&self, update: &Update<'_>) {
        let mut at_step = self.0.lock().expect("a function that did not panic");
        at_step(update.step);
    }

    fn note(&self, _: &str) {}
}

/// Rebuilds counters in this process. Calls `at_step` before it continues with a step.
fn rebuild_with(
    store: &TestStore,
    config: &str,
    archive: &Path,
    at_step: impl FnMut(&str) + Send,
) -> Report {
    let port = store.server.port();
    let text = format!("[redis]\nurl = \"redis://127.0.0.1:{port}/\"\n{config}");
    let config = Arc::new(Config::parse(&text).expect("a configuration"));
    let options = Options {
        dir: archive.to_owned(),
        baseline: None,
        dry_run: false,
        restart: false,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let progress = AtStep(Mutex::new(at_step));
    runtime.block_on(async {
        let store = Store::connect(&config, Purpose::Use).await;
        let store = store.expect("a connection");
        let rebuild = countd::maintenance::rebuild::rebuild(&store, &config, &options, &progress);
        rebuild.await.expect("a rebuild")
    })
}
