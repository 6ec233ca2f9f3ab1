//! `countd relay` with three real brokers as the log.

use super::TOPIC_PARTITIONS;
use crate::relay::topic::rows_are_counted_once;
use crate::support::database::Kind;
use crate::support::kafka::Brokers;

/// Each broker is killed once, and the relay while the broker is away.
#[test]
#[ignore = "needs real brokers: scripts/test-kafka"]
fn rows_of_a_relay_are_counted_once_from_three_brokers() {
    let mut brokers = Brokers::start(3, TOPIC_PARTITIONS);
    for kind in [Kind::Postgres, Kind::MariaDb] {
        brokers.delete_topic();
        brokers.create_topic(TOPIC_PARTITIONS);
        let (addresses, topic) = (brokers.addresses(), brokers.topic());
        rows_are_counted_once(kind, &addresses, &topic, |part, relay| {
            let broker = part as usize;
            brokers.kill(broker);
            relay.kill();
            relay.launch();
            brokers.launch(broker);
        });
    }
}
