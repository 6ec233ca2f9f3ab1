//! Migrations that are killed at each step and run again, while the other processes and the server are killed, too.

use super::resets::Resets;
use super::setup::{CONFIG, PARTITIONS, assert_migrated, migrate, start, start_with};
use crate::support::conversions::Command;
use crate::support::invariants::assert_invariants;
use crate::support::kafka::Log;
use crate::support::stores::{TestStore, cluster_objects, objects};
use crate::support::{Countd, Settings, set_schema};

/// The steps of a migration, and which occurrence of each.
pub const STEPS: [(&str, usize); 10] = [
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

#[test]
fn counts_match_the_model_when_migrations_are_killed() {
    assert_migrated_under_kills(objects());
}

#[test]
fn counts_match_the_model_when_migrations_are_killed_in_cluster_mode() {
    assert_migrated_under_kills(cluster_objects());
}

fn assert_migrated_under_kills(mut store: TestStore) {
    assert_counts_match_under_kills(&mut store, &Log::streams(&CONFIG), &STEPS);
    assert_migrated(&[&store.server]);
}

/// Asserts that counts match the model when migrations are killed at these steps.
pub fn assert_counts_match_under_kills(store: &mut TestStore, log: &Log, steps: &[(&str, usize)]) {
    set_schema(&store.server, &log.config);
    let migration = Command {
        targets: &["note", "user"],
        start: &|server, target| start_with(server, &log.config, target, &[]),
        steps,
        last_layout: "layout: table",
    };
    let cold = |store: &TestStore, note| {
        let key = store.counters("v1", &format!("note:{note}"), PARTITIONS);
        format!("CINT.SET {key} LEN 5 {REPOST} {note}")
    };
    let (sums, processes) =
        migration.assert_counts_match_under_kills((store, log, PARTITIONS), cold, |_, _| {
            Resets::new(10_000)
        });
    sums.assert_complete(&processes[2].api());
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
