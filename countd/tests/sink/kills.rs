//! Processes and servers are killed with SIGKILL.

use super::{Rows, Warehouse};
use crate::support::database::{Kind, for_each_database};
use crate::support::{Api, metric, on_note, with};
use countint_tests::wait_until;
use serde_json::{Value as Json, json};

/// The number of notes.
const NOTES: u64 = 12;
/// The number of actions after each kill.
const ACTIONS: u64 = 150;
const KILLS: u64 = 12;

/// Random numbers that are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 20) % end
    }
}

/// Sends an action until it succeeds. It counts once.
fn send(api: &Api, metric: &str, action: Json, key: u64) {
    let action = with(action, json!({ "idempotencyKey": key.to_string() }));
    let path = format!("/action/{metric}");
    wait_until("the action succeeds", || {
        matches!(api.try_post(&path, &action.to_string()), Ok((200, _)))
    });
}

/// Adds and removes likes, and reads notes.
fn act(warehouse: &Warehouse, expected: &mut Rows, random: &mut Random) {
    let api = warehouse.api();
    for _ in 0..ACTIONS {
        let (note, user) = (random.below(NOTES), random.below(40));
        let (name, key) = (note.to_string(), random.below(u64::MAX));
        match random.below(4) {
            0 => {
                send(&api, "read", on_note(note, user), key);
                let row = (name.clone(), "read".to_owned());
                let reads = expected.counts.get(&row).copied().unwrap_or(0);
                expected.count(&name, "read", reads + 1);
            }
            1 => {
                let remove = with(on_note(note, user), json!({ "op": "remove" }));
                send(&api, "like", remove, key);
                expected.details.remove(&(user.to_string(), name.clone()));
                expected.like(&name, []);
            }
            _ => {
                send(&api, "like", on_note(note, user), key);
                expected.like(&name, [user]);
            }
        }
    }
}

/// The sink, the database, Redis, and the process that counts in turn, while rows are written.
fn rows_are_right_whatever_is_killed(kind: Kind) {
    // Small transactions, so that most kills are between two of them.
    let settings = "batch = 5\ntimeout_ms = 5000";
    let mut warehouse = Warehouse::start(kind, settings);
    let mut sink = warehouse.sink();
    let mut expected = Rows::default();
    let mut random = Random(7);
    for kill in 0..KILLS {
        act(&warehouse, &mut expected, &mut random);
        match kill % 4 {
            0 => {
                sink.kill();
                act(&warehouse, &mut expected, &mut random);
                sink.launch();
            }
            1 => {
                warehouse.database.kill();
                act(&warehouse, &mut expected, &mut random);
                warehouse.database.start_again();
            }
            2 => {
                warehouse.store.server.kill();
                warehouse.store.server.start_again();
            }
            _ => {
                warehouse.countd.kill();
                warehouse.countd.launch();
            }
        }
        if kill % 4 == 3 {
            warehouse.wait_for(&expected);
        }
    }
    wait_until("the sink has recovered", || {
        metric(&sink.api(), "countd_sink_failed") == 0
    });
    // Redis was killed last, so all rows are compared. They are right before and after.
    warehouse.wait_for_pass(&sink, 1);
    assert_eq!(warehouse.rows(), expected);
}

/// The kill in the midst of a transaction: rows are written, and nothing is committed.
fn a_kill_in_a_transaction_leaves_no_part_of_it(kind: Kind) {
    let warehouse = Warehouse::start(kind, "timeout_ms = 60000");
    let mut sink = warehouse.sink();
    let mut expected = Rows::default();
    warehouse.wait_for_pass(&sink, 1);
    // The facts of a transaction are written before its counters.
    let lock = warehouse.database.session(match kind {
        Kind::Postgres => "BEGIN; LOCK TABLE t_count IN EXCLUSIVE MODE",
        Kind::MariaDb => "LOCK TABLES t_count READ",
    });
    for user in 1..=50 {
        warehouse.api().act("like", on_note(1, user));
    }
    expected.like("1", 1..=50);
    wait_until("the sink waits for the lock", || {
        metric(&sink.api(), "countd_sink_lag") > 0
    });
    sink.kill();
    drop(lock);
    assert_eq!(warehouse.database.count("t_praise_detail"), 0);
    sink.launch();
    warehouse.wait_for(&expected);
    assert_eq!(
        metric(&sink.api(), "countd_sink_passes_total"),
        0,
        "the log has told what was missing"
    );
}

for_each_database! {
    rows_are_right_whatever_is_killed
    a_kill_in_a_transaction_leaves_no_part_of_it
}
