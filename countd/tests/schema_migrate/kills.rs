//! Migrations that are killed in each stage and run again, under load, while the other processes and the server are killed, too.

use super::setup::{
    BOTH, CONFIG, NEW, OLD, PARTITIONS, counts, migrate_with, names, set_schemas_with, start_with,
};
use crate::support::invariants::assert_invariants;
use crate::support::kafka::Log;
use crate::support::stores::{TestStore, cluster, module};
use crate::support::verify::assert_matches_model;
use crate::support::workload::{Random, WorkloadSize, run_clients};
use crate::support::{Api, Countd, Settings, pause, printed, run};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

const SIZE: WorkloadSize = WorkloadSize {
    clients: 4,
    users: 20,
    notes: 200,
    actions_per_client: 600,
    batch: 25,
    erasures: 1,
};

/// The options of a command, and the step in which it is killed before it runs again.
pub type Step = (&'static [&'static str], &'static str);

/// The commands, in order.
const STEPS: [Step; 17] = [
    (&[], "stage: dual 0"),
    (&["--rollback"], "stage: rolled-back 0"),
    (&[], "columns"),
    (&["--rollback"], "waiting for all processes"),
    (&[], "waiting for all processes"),
    (&["--rollback"], "stage: rolled-back 0"),
    (&[], "stage: backfill 0"),
    (&["--rollback"], "stage: rolled-back 0"),
    (&[], "stage: read-new 0"),
    (&["--percent", "40"], "comparison"),
    (&["--percent", "70"], "stage: read-new 70"),
    (&["--rollback"], "waiting for all processes"),
    (&["--percent", "100"], "stage: read-new 100"),
    (&["--done"], "comparison"),
    (&["--rollback"], "stage: rolled-back 0"),
    (&["--percent", "100"], "comparison"),
    (&["--done"], "stage: done 100"),
];

/// Reads counters until it is stopped, and checks what it gets.
struct Reader {
    stop: AtomicBool,
    reads: AtomicU64,
    /// How often a page had counters of the new schema.
    new: AtomicU64,
}

impl Reader {
    /// No client takes a read back, and no client erases these notes, so their number of reads only grows. Whatever its schema, a note has
    /// all counters of this schema, with this number.
    fn run(&self, api: &Api) {
        let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
        let mut random = Random(5);
        while !self.stop.load(Relaxed) {
            let note = random.below(SIZE.notes);
            // The process may be killed.
            let path = format!("/counter/note/{note}");
            let Ok((200, body)) = api.try_get(&path) else {
                pause();
                continue;
            };
            let json: serde_json::Value = serde_json::from_str(&body).expect("JSON");
            let found = super::setup::numbers(&json["counts"]);
            let of_new = names(&found) == NEW;
            assert!(of_new || names(&found) == OLD, "{found:?}");
            let before = seen.insert(note, found["read"]).unwrap_or(0);
            assert!(
                found["read"] >= before,
                "note {note}: {before}, then {found:?}"
            );
            self.reads.fetch_add(1, Relaxed);
            self.new.fetch_add(u64::from(of_new), Relaxed);
        }
    }
}

/// Stops a reader when dropped, also if the test fails.
struct Stop<'r>(&'r Reader);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Relaxed);
    }
}

#[test]
fn counts_match_the_model_when_migrations_are_killed() {
    assert_counts_match_under_kills(module(), &Log::streams(&CONFIG), &STEPS);
}

#[test]
fn counts_match_the_model_when_migrations_are_killed_in_cluster_mode() {
    assert_counts_match_under_kills(cluster(), &Log::streams(&CONFIG), &STEPS);
}

/// Asserts that counts match the model when migrations are killed at these steps. The last one is done.
pub fn assert_counts_match_under_kills(mut store: TestStore, log: &Log, steps: &[Step]) {
    let config = log.config.as_str();
    set_schemas_with(&store.server, config);
    let settings = |command| Settings { command, config };
    let mut processes =
        ["serve", "consume", "all"].map(|command| Countd::with(&store.server, &settings(command)));
    let apis = [processes[0].api(), processes[2].api()];
    let reader = Reader {
        stop: AtomicBool::new(false),
        reads: AtomicU64::new(0),
        new: AtomicU64::new(0),
    };
    let mut random = Random(13);
    let model = thread::scope(|scope| {
        let reader = &reader;
        for api in &apis {
            scope.spawn(move || reader.run(api));
        }
        let stop = Stop(reader);
        let model = run_clients(&apis, 9, SIZE, |progress| {
            progress.wait_for(SIZE.total() / 4);
            for (kill, (options, step)) in steps.iter().copied().enumerate() {
                let mut migrating = start_with(&store.server, config, options);
                assert!(migrating.wait_for_step(step, 1), "{options:?}: {step}");
                thread::sleep(Duration::from_millis(random.below(50)));
                match kill % 5 {
                    process @ 0..=2 => {
                        processes[process].kill();
                        migrating.kill();
                        processes[process].launch();
                    }
                    3 => {
                        migrating.kill();
                        store.restart();
                    }
                    _ => migrating.kill(),
                }
                // Otherwise the next one waits until the lock expires.
                store.server.client().ok("DEL countd:migrate");
                migrate_with(&store.server, config, options);
            }
        });
        drop(stop);
        model
    });
    let [reads, new] = [&reader.reads, &reader.new].map(|count| count.load(Relaxed));
    eprintln!("{reads} reads, {new} of the new schema");
    assert!(new > 0 && new < reads);
    log.drain(&store.server, PARTITIONS);
    for note in 0..SIZE.notes {
        let (found, expected) = (counts(&apis[0], note), model.note(note));
        assert_eq!(names(&found), NEW);
        for (old, new) in BOTH {
            assert_eq!(expected[old], found[new], "{new} of note {note}");
        }
    }
    assert_invariants(&store.server, config);
    migrate_with(&store.server, config, &["--rollback"]);
    assert_matches_model(&apis[1], &model, SIZE);
    assert_invariants(&store.server, config);
    let dead = printed(&run(&store.server, config, &["dead", "list"]));
    assert_eq!(dead, "");
}
