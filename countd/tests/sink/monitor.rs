//! A sink tells the state of Redis and of the logs.

use super::Warehouse;
use crate::support::database::Kind;
use crate::support::monitored::assert_knows_backlog;
use crate::support::{Countd, Settings, on_note};

#[test]
fn a_sink_knows_the_backlog_that_nothing_counts() {
    let settings = "batch = 50\n[monitor]\ninterval_seconds = 1";
    let mut warehouse = Warehouse::start(Kind::Postgres, settings);
    let sink = warehouse.sink();
    let (command, config) = ("serve", warehouse.config.as_str());
    let serve = Countd::with(&warehouse.store.server, &Settings { command, config });
    // The only consumer.
    warehouse.countd.stop();
    let api = serve.api();
    for user in 0..30 {
        api.act("like", on_note(1, user));
    }
    assert_knows_backlog(&sink, &serve, &warehouse.store.server, 30);
}
