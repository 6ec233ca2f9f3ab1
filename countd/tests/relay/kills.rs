//! Processes and servers are killed with SIGKILL.

use super::Shop;
use crate::support::database::{Kind, for_each_database};
use crate::support::invariants::assert_invariants;
use crate::support::{metric, wait_until_drained};
use countint_tests::wait_until;

/// The relay, the database and Redis in turn, each several times.
fn events_count_once_whatever_is_killed(kind: Kind) {
    const EACH: u64 = 600;
    const KILLS: u64 = 9;
    let mut shop = Shop::start(kind, "batch = 20");
    let mut relay = shop.relay();
    for kill in 0..KILLS {
        shop.like(kill * EACH, (kill + 1) * EACH);
        // Most often some of the rows are under way then.
        wait_until("some rows are relayed", || shop.waiting() < EACH - 40);
        match kill % 3 {
            0 => {
                relay.kill();
                relay.launch();
            }
            1 => {
                shop.database.kill();
                shop.database.start_again();
            }
            _ => {
                shop.store.server.kill();
                shop.store.server.start_again();
            }
        }
    }
    shop.wait_until_relayed();
    shop.assert_liked(KILLS * EACH);
    assert_eq!(metric(&relay.api(), "countd_relay_failed"), 0);
    assert_eq!(shop.database.count("event_outbox_dead"), 0);
    assert_invariants(&shop.store.server, &shop.config);
}

/// The kill that matters most: the events are in the log, and the rows are not yet deleted.
fn a_kill_between_log_and_commit_counts_no_event_twice(kind: Kind) {
    let shop = Shop::start(kind, "connections = 1");
    // The relay cannot set the last row aside, so it waits after it has appended the others.
    let lock = shop.database.session(match kind {
        Kind::Postgres => "BEGIN; LOCK TABLE event_outbox_dead IN EXCLUSIVE MODE",
        Kind::MariaDb => "LOCK TABLES event_outbox_dead READ",
    });
    shop.like(0, 1_000);
    shop.insert(&[super::row(
        "bad",
        "nonsense",
        "note",
        "1",
        &super::payload(1, 1),
    )]);
    let mut relay = shop.relay();
    wait_until("the events are in the log", || {
        shop.server_has_counted(1_000)
    });
    assert_eq!(shop.waiting(), 1_001);
    assert_eq!(metric(&relay.api(), "countd_relay_sent_total"), 0);
    relay.kill();
    drop(lock);
    relay.launch();
    shop.wait_until_relayed();
    shop.assert_liked(1_000);
    assert_eq!(shop.duplicates(), 1_000);
    assert_eq!(shop.database.count("event_outbox_dead"), 1);
    assert_invariants(&shop.store.server, &shop.config);
}

/// SIGTERM: what has been appended is also committed.
fn a_stopped_relay_leaves_no_events_to_repeat(kind: Kind) {
    let shop = Shop::start(kind, "batch = 20");
    shop.like(0, 2_000);
    let mut relay = shop.relay();
    wait_until("some rows are relayed", || shop.waiting() < 1_900);
    relay.stop();
    let waiting = shop.waiting();
    wait_until_drained(&shop.store.server, super::PARTITIONS);
    assert!(shop.server_has_counted(2_000 - waiting));
    relay.launch();
    shop.wait_until_relayed();
    shop.assert_liked(2_000);
    assert_eq!(shop.duplicates(), 0);
    assert_invariants(&shop.store.server, &shop.config);
}

impl Shop {
    /// Whether exactly this many events were counted.
    fn server_has_counted(&self, events: u64) -> bool {
        metric(&self.api(), "countd_events_applied_total") == events
    }
}

for_each_database! {
    events_count_once_whatever_is_killed
    a_kill_between_log_and_commit_counts_no_event_twice
    a_stopped_relay_leaves_no_events_to_repeat
}
