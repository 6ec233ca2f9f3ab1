//! Tables of other forms, the Redis user, and the limit of uncounted events.

use super::{PARTITIONS, Shop, store};
use crate::support::database::{Database, Kind, for_each_database};
use crate::support::{Countd, Settings, printed, run, wait_until_drained};
use countint_tests::wait_until;

/// The five columns only, as numbers and JSON, and values that the documented table does not permit.
fn columns_may_have_other_types(kind: Kind) {
    let database = Database::start(kind);
    let (json, prefix) = match kind {
        Kind::Postgres => ("jsonb", "CREATE SCHEMA shop; "),
        Kind::MariaDb => ("JSON", ""),
    };
    database.execute(&format!(
        "{prefix}CREATE TABLE shop.outbox (event_id bigint PRIMARY KEY, event_type varchar(300), \
         aggregate_type varchar(300), aggregate_id bigint, payload {json});
         CREATE TABLE shop.outbox_dead (event_id bigint, event_type varchar(300), \
         aggregate_type varchar(300), aggregate_id bigint, payload {json}, reason text)"
    ));
    let shop = Shop::with(
        database,
        store(kind),
        "table = \"shop.outbox\"\nkey = \"event_id\"\nbatch = 2",
    );
    // Greater than 2^53; in another order than that of the texts.
    shop.database.execute(
        "INSERT INTO shop.outbox VALUES
         (114327608932745217, 'like', 'note', 7, '{\"delta\": 1, \"uid\": 1, \"nested\": [1, {\"a\": \"\\u00e9\"}]}'),
         (114327608932745218, 'like', 'note', 7, '{\"delta\": 1, \"uid\": 2}'),
         (9, 'like', 'note', 7, '{\"delta\": 1, \"uid\": 3}'),
         (10, 'like', 'note', NULL, '{\"delta\": 1, \"uid\": 4}'),
         (11, 'like', 'note', 7, NULL),
         (12, NULL, 'note', 7, '{\"delta\": 1, \"uid\": 5}')",
    );
    let _relay = shop.relay();
    wait_until("all rows are relayed", || {
        shop.database.count("shop.outbox") == 0
    });
    wait_until_drained(&shop.store.server, PARTITIONS);
    assert_eq!(shop.api().counts(7)["like"], 3);
    let reasons = shop
        .database
        .texts("SELECT reason FROM shop.outbox_dead ORDER BY event_id");
    let expected = [
        "aggregate_id is NULL",
        "payload is NULL",
        "event_type is NULL",
    ];
    assert_eq!(reasons, expected);
}

/// As a Redis user with the permissions that `countd acl` prints, and no others.
fn the_printed_user_may_relay(kind: Kind) {
    let mut shop = Shop::start(kind, "max_lag = 10");
    let users = printed(&run(
        &shop.store.server,
        &shop.config,
        &["acl", "--user", "shop"],
    ));
    let user = users.lines().find(|line| line.contains(" shop-relay "));
    let mut operator = shop.store.server.client();
    operator.ok(&user.expect("a user").replace(">PASSWORD", ">secret"));
    let (command, config) = ("relay", shop.config.as_str());
    let settings = Settings { command, config };
    let relay = Countd::as_user(&shop.store.server, &settings, "shop-relay");
    shop.like(0, 100);
    shop.wait_until_relayed();
    shop.assert_liked(100);
    assert_eq!(shop.store.refused_commands(), Vec::<String>::new());
    drop(relay);
    shop.countd.stop();
}

fn a_relay_waits_for_the_consumers(kind: Kind) {
    let shop = Shop::start(kind, "max_lag = 200\nbatch = 50\nconnections = 2");
    shop.countd.suspend();
    shop.like(0, 2_000);
    let relay = shop.relay();
    wait_until("the relay waits", || {
        relay.log().contains("waiting for the consumers")
    });
    // A check for each quarter of the limit, and a batch for each connection.
    assert!(
        shop.waiting() >= 2_000 - 200 - 2 * 50 - 2 * 50,
        "{}",
        shop.waiting()
    );
    shop.countd.resume();
    shop.wait_until_relayed();
    shop.assert_liked(2_000);
}

for_each_database! {
    columns_may_have_other_types
    the_printed_user_may_relay
    a_relay_waits_for_the_consumers
}
