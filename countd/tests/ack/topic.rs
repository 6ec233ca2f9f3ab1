//! Copies of streams in a topic of Kafka.

use super::{NEVER, waiting};
use crate::support::kafka::{self, Mock, wait_until_published};
use crate::support::stores::module;
use crate::support::{Countd, Settings, on_note, set_schema, wait_until_drained};
use countint_tests::wait_until;

/// A server that fails over to its replica would have other events at the offsets of those that the replica does not have.
#[test]
fn events_are_not_copied_before_a_replica_has_them() {
    let store = module();
    let server = &store.server;
    let replica = server.replica();
    let mock = Mock::start(4);
    let of_topic = kafka::config(&mock.addresses(), 16, "");
    let with = |ack| format!("[redis]\nack = \"{ack}\"\nack_timeout_ms = {NEVER}\n{of_topic}");
    let memory = &with("memory");
    set_schema(server, memory);
    let start = |command, config| Countd::with(server, &Settings { command, config });
    let serve = start("serve", memory);
    let confirming = &with("replicas:1");
    let _consume = start("consume", confirming);
    replica.signal("STOP");
    serve.api().act("like", on_note(1, 7));
    wait_until_drained(server, 16);
    let mut client = server.client();
    wait_until("the publisher waits", || waiting(&mut client) >= 1);
    let topic = mock.topic();
    assert!(topic.records().is_empty());
    replica.signal("CONT");
    wait_until_published(&store, 16);
    assert_eq!(topic.records().len(), 1);
}
