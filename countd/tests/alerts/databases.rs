//! The relay, the sink, and acknowledgements.

use super::{CONFIG, Recording, wait_until_collected};
use crate::relay::Shop;
use crate::sink::Warehouse;
use crate::support::database::Kind;
use crate::support::{Countd, metric, on_note};
use countint_tests::{Server, wait_until};

#[test]
fn a_relay_in_trouble_is_noticed() {
    let mut shop = Shop::start(Kind::Postgres, "batch = 50\ntimeout_ms = 5000");
    let relay = shop.relay();
    let api = relay.api();
    wait_until_collected(&relay);
    let mut recording = Recording::default();
    recording.scrape(&[("relay", &relay)]);
    shop.insert(&["('p:6', 'like', 'note', '1', '{\"delta\": 1, \"uid\": \"7\"}')".to_owned()]);
    wait_until("the row is set aside", || {
        metric(&api, "countd_relay_dead_total") == 1
    });
    shop.database.kill();
    wait_until("the relay has no database", || {
        metric(&api, "countd_relay_failed") == 1
    });
    recording.scrape(&[("relay", &relay)]);
    recording.assert_fires(&["CountdRelayDeadRows", "CountdRelayFailed"], 10);
}

#[test]
fn a_sink_in_trouble_is_noticed() {
    let mut warehouse = Warehouse::start(Kind::Postgres, "timeout_ms = 5000");
    let sink = warehouse.sink();
    let api = sink.api();
    wait_until_collected(&sink);
    wait_until("the sink works", || {
        metric(&api, "countd_sink_passes_total") > 0
    });
    let mut recording = Recording::default();
    recording.scrape(&[("sink", &sink)]);
    warehouse.database.kill();
    wait_until("the sink has no database", || {
        metric(&api, "countd_sink_failed") == 1
    });
    recording.scrape(&[("sink", &sink)]);
    recording.assert_fires(&["CountdSinkFailed"], 10);
}

#[test]
fn writes_that_are_not_acknowledged_are_noticed() {
    let server = Server::start();
    let replica = server.replica();
    let config = format!("{CONFIG}[redis]\nack = \"replicas:1\"\nack_timeout_ms = 200\n");
    let countd = Countd::start(&server, &config);
    let api = countd.api();
    wait_until_collected(&countd);
    let mut recording = Recording::default();
    recording.scrape(&[("countd", &countd)]);
    drop(replica);
    wait_until("a write is not acknowledged", || {
        api.post("/action/like", &on_note(1, 1));
        metric(&api, "countd_redis_not_acknowledged_total") > 0
    });
    recording.scrape(&[("countd", &countd)]);
    recording.assert_fires(&["CountdNotAcknowledged"], 10);
}
