//! Migrations that are killed at each step and run again, while the other processes and the server are killed, too.

use super::resets::Resets;
use super::setup::{CONFIG, PARTITIONS, assert_migrated, migrate, start};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, cluster_objects, objects};
use crate::support::verify::assert_matches_model;
use crate::support::workload::{Random, WorkloadSize, run_clients};
use crate::support::{Countd, Settings, printed, run, set_schema, wait_until_drained};
use std::ops::Range;
use std::thread;
use std::time::Duration;

const SIZE: WorkloadSize = WorkloadSize {
    clients: 6,
    users: 20,
    notes: 300,
    actions_per_client: 1_000,
    batch: 25,
    erasures: 1,
};

/// The steps of a migration, and which occurrence of each.
const STEPS: [(&str, usize); 10] = [
    ("layout: moving", 1),
    ("waiting for all processes", 1),
    ("grace period", 1),
    ("slots: moving", 1),
    ("moving", 1),
    ("slots: table", 1),
    ("layout: table", 1),
    ("waiting for all processes", 1),
    ("grace period", 1),
    ("moving", 2),
];

/// The index of a counter that has neither facts nor counts by day.
const REPOST: u8 = 4;
/// Notes that no client uses, so that only migrations move them.
const COLD: Range<u64> = 1_000_000..1_010_000;

fn create_cold_notes(store: &TestStore) {
    let command = |note: u64| {
        let key = store.counters("v1", &format!("note:{note}"), PARTITIONS);
        let words = format!("CINT.SET {key} LEN 5 {REPOST} {note}");
        words.split(' ').map(str::to_owned).collect::<Vec<_>>()
    };
    let commands: Vec<_> = COLD.map(command).collect();
    store.server.client().pipeline(&commands);
}

#[test]
fn counts_match_the_model_when_migrations_are_killed() {
    assert_counts_match_under_kills(objects());
}

#[test]
fn counts_match_the_model_when_migrations_are_killed_in_cluster_mode() {
    assert_counts_match_under_kills(cluster_objects());
}

fn assert_counts_match_under_kills(mut store: TestStore) {
    set_schema(&store.server, &CONFIG);
    create_cold_notes(&store);
    let settings = |command| Settings {
        command,
        config: &CONFIG,
    };
    let mut processes =
        ["serve", "consume", "all"].map(|command| Countd::with(&store.server, &settings(command)));
    let apis = [processes[0].api(), processes[2].api()];
    let resets = Resets::new(10_000);
    let mut random = Random(13);
    let (model, sums) = thread::scope(|scope| {
        let sums = scope.spawn(|| resets.run(&apis[0]));
        let stop = resets.stop_on_drop();
        let model = run_clients(&apis, 9, SIZE, |progress| {
            progress.wait_for(SIZE.total() / 4);
            for target in ["note", "user"] {
                for (kill, (step, times)) in STEPS.into_iter().enumerate() {
                    let mut migrating = start(&store.server, target, &[]);
                    let reached = migrating.wait_for_step(step, times);
                    if !reached {
                        // The one before was killed only after it had done this step, too.
                        let (succeeded, _, errors) = migrating.end();
                        assert!(succeeded && step == "layout: table", "{step}: {errors}");
                        continue;
                    }
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
                }
                migrate(&store.server, target);
            }
        });
        drop(stop);
        (model, sums.join().expect("resets end"))
    });
    wait_until_drained(&store.server, PARTITIONS);
    assert_matches_model(&apis[0], &model, SIZE);
    assert_invariants(&store.server, &CONFIG);
    sums.assert_complete(&apis[1]);
    for note in COLD.step_by(97) {
        assert_eq!(apis[1].counts(note)["repost"], note, "note {note}");
    }
    assert_migrated(&[&store.server]);
    assert_eq!(printed(&run(&store.server, &CONFIG, &["dead", "list"])), "");
}

/// The server is killed while the migration runs. The migration goes on.
#[test]
fn a_migration_goes_on_when_the_server_restarts() {
    let mut store = objects();
    set_schema(&store.server, &CONFIG);
    let mut client = store.server.client();
    for note in 0..20_000 {
        client.ok(&format!(
            "CINT.SET cnt:v1:note:{note} LEN 5 {REPOST} {note}"
        ));
    }
    let mut migrating = start(&store.server, "note", &[]);
    assert!(migrating.wait_for_step("moving", 1));
    store.restart();
    let (succeeded, _, errors) = migrating.end();
    assert!(succeeded, "{errors}");
    migrate(&store.server, "user");
    assert_migrated(&[&store.server]);
    let (command, config): (_, &str) = ("serve", &CONFIG);
    let countd = Countd::with(&store.server, &Settings { command, config });
    let api = countd.api();
    for note in [0, 1, 777, 19_999] {
        assert_eq!(api.counts(note)["repost"], note);
    }
    drop(countd);
    let command = "all";
    let _consumer = Countd::with(&store.server, &Settings { command, config });
    assert_invariants(&store.server, config);
}
