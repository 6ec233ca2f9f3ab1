//! A relay tells the state of Redis and of the logs.

use super::Shop;
use crate::support::database::Kind;
use crate::support::monitored::assert_knows_backlog;
use crate::support::{Countd, Settings};

#[test]
fn a_relay_knows_the_backlog_that_nothing_counts() {
    let mut shop = Shop::start(
        Kind::Postgres,
        "batch = 50\n[monitor]\ninterval_seconds = 1",
    );
    let relay = shop.relay();
    let (command, config) = ("serve", shop.config.as_str());
    let serve = Countd::with(&shop.store.server, &Settings { command, config });
    // The only consumer.
    shop.countd.stop();
    shop.like(0, 30);
    assert_knows_backlog(&relay, &serve, &shop.store.server, 30);
}
