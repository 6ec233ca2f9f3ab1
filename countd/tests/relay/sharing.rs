//! Several relays share a table.

use super::Shop;
use crate::support::database::{Kind, for_each_database};
use crate::support::metric;
use countint_tests::wait_until;

fn two_relays_never_send_the_same_row(kind: Kind) {
    let shop = Shop::start(kind, "batch = 10\nconnections = 2");
    let relays = [shop.relay(), shop.relay()];
    for part in 0..4 {
        shop.like(part * 1_000, (part + 1) * 1_000);
    }
    shop.wait_until_relayed();
    shop.assert_liked(4_000);
    assert_eq!(shop.duplicates(), 0);
    let sent = || {
        relays
            .iter()
            .map(|relay| metric(&relay.api(), "countd_relay_sent_total"))
    };
    // The metric follows the commit.
    wait_until("both have counted their rows", || {
        sent().sum::<u64>() == 4_000
    });
    for relay in &relays {
        assert_eq!(metric(&relay.api(), "countd_relay_retries_total"), 0);
    }
}

fn rows_of_a_relay_that_waits_do_not_stop_another(kind: Kind) {
    let shop = Shop::start(kind, "batch = 100\nconnections = 1");
    // The first relay has read a hundred rows, and waits before it commits.
    let lock = shop.database.session(match kind {
        Kind::Postgres => "BEGIN; LOCK TABLE event_outbox_dead IN EXCLUSIVE MODE",
        Kind::MariaDb => "LOCK TABLES event_outbox_dead READ",
    });
    shop.like(0, 99);
    shop.insert(&[super::row(
        "bad",
        "nonsense",
        "note",
        "1",
        &super::payload(1, 1),
    )]);
    let _first = shop.relay();
    wait_until("it has appended its rows", || {
        metric(&shop.api(), "countd_events_applied_total") == 99
    });
    shop.like(99, 400);
    let _second = shop.relay();
    wait_until("the others are relayed", || shop.waiting() == 100);
    drop(lock);
    shop.wait_until_relayed();
    shop.assert_liked(400);
    assert_eq!(shop.duplicates(), 0);
}

for_each_database! {
    two_relays_never_send_the_same_row
    rows_of_a_relay_that_waits_do_not_stop_another
}
