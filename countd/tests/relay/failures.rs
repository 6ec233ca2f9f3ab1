//! The database or Redis is away, or cannot be used.

use super::{Shop, config};
use crate::support::database::{Kind, PASSWORD, for_each_database};
use crate::support::{metric, printed, run};
use countint_tests::wait_until;

fn a_relay_waits_for_the_database(kind: Kind) {
    let mut shop = Shop::start(kind, "");
    shop.like(0, 200);
    shop.database.kill();
    let relay = shop.relay();
    wait_until("the relay retries", || {
        metric(&relay.api(), "countd_relay_retries_total") > 1
    });
    assert_eq!(metric(&relay.api(), "countd_relay_failed"), 1);
    shop.database.start_again();
    shop.wait_until_relayed();
    shop.assert_liked(200);
    wait_until("the relay has recovered", || {
        metric(&relay.api(), "countd_relay_failed") == 0
    });
    assert!(!relay.log().contains(PASSWORD));
}

fn a_relay_waits_for_redis(kind: Kind) {
    let mut shop = Shop::start(kind, "batch = 50");
    let relay = shop.relay();
    shop.like(0, 100);
    shop.wait_until_relayed();
    shop.store.server.kill();
    shop.like(100, 400);
    wait_until("the relay retries", || {
        metric(&relay.api(), "countd_relay_retries_total") > 1
    });
    assert_eq!(shop.waiting(), 300);
    shop.store.server.start_again();
    shop.wait_until_relayed();
    shop.assert_liked(400);
}

fn a_relay_without_tables_does_not_start(kind: Kind) {
    let shop = Shop::start(kind, "");
    let checked = printed(&run(&shop.store.server, &shop.config, &["check"]));
    assert!(checked.contains("relay: ok"), "{checked}");
    let refused = |settings: &str, part: &str| {
        for command in ["relay", "check"] {
            let output = run(
                &shop.store.server,
                &config(&shop.database, settings),
                &[command],
            );
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success(), "{command}: {settings}");
            assert!(errors.contains(part), "{command}: {settings}: {errors}");
            assert!(!errors.contains(PASSWORD), "{errors}");
        }
    };
    refused("table = \"other\"", "other");
    refused("key = \"number\"", "number");
    // The column of marks is missing.
    refused("sent = \"mark\"", "sent_at");
    shop.database
        .execute("ALTER TABLE event_outbox_dead DROP COLUMN reason");
    refused("", "reason");
}

/// A key that is not unique would select rows that were not read.
fn rows_with_a_key_that_is_not_unique_stay(kind: Kind) {
    let shop = Shop::start(kind, "batch = 3\nkey = \"shard\"");
    shop.database
        .execute("ALTER TABLE event_outbox ADD COLUMN shard bigint NOT NULL DEFAULT 1");
    shop.like(0, 20);
    let relay = shop.relay();
    wait_until("the relay retries", || {
        relay.log().contains("is relay.key unique")
    });
    assert_eq!(shop.waiting(), 20);
}

#[test]
fn a_relay_needs_a_database() {
    let server = countint_tests::Server::start();
    let output = run(&server, "", &["relay"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("relay.url is not set"),
        "{errors}"
    );
}

for_each_database! {
    a_relay_waits_for_the_database
    a_relay_waits_for_redis
    a_relay_without_tables_does_not_start
    rows_with_a_key_that_is_not_unique_stay
}
