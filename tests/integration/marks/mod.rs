//! `RBM.MARK` and `RBM.UNMARK` change the fact, its count and its event atomically, under concurrent writers and across
//! crashes; `RBM.MMARK` and `RBM.MUNMARK` several facts with one event.

mod checker;
mod effects;
mod groups;
mod kills;
mod readers;
mod refusals;
mod torn;
mod writers;

use checker::Checker;
use countint_tests::Server;
use std::time::Duration;
use writers::Writers;

/// How long the writers run; `COUNTINT_MARK_SECONDS` overrides it.
fn duration() -> Duration {
    let seconds = match std::env::var("COUNTINT_MARK_SECONDS") {
        Ok(seconds) => seconds
            .parse()
            .expect("COUNTINT_MARK_SECONDS is a whole number"),
        Err(_) => 30,
    };
    Duration::from_secs(seconds)
}

#[test]
fn set_counter_and_stream_agree_under_concurrent_marks() {
    let master = Server::start();
    let replica = Server::builder()
        .config("repl-timeout 3600")
        .replica_of(&master)
        .start();
    master
        .client()
        .ok("CONFIG SET client-output-buffer-limit \"replica 0 0 0\"");
    let mut writers = Writers::new(1);
    writers.run(master.port(), duration());
    master.wait_for_replica(&replica);

    let mut checker = Checker::default();
    std::thread::scope(|scope| {
        // Both checkers read all entries; the replica's data is consistent, too.
        scope.spawn(|| Checker::default().read(&mut replica.client()));
        checker.read(&mut master.client());
    });
    let changes = checker.take_changes();
    writers.reconcile(changes, writers::AllowedLoss::Nothing);
    assert_eq!(master.client().digest(), replica.client().digest());
    assert!(checker.entries() > 1000, "{} changes", checker.entries());
}
