//! Settings of `[kafka]` that are refused, with the reason, before anything is read or written.

use super::{PARTITIONS, TOPIC_PARTITIONS};
use crate::support::kafka::{Mock, config};
use crate::support::run;
use countint_tests::Server;

/// The error of `countd check` with these lines.
#[track_caller]
fn refused(server: &Server, config: &str) -> String {
    let output = run(server, config, &["check"]);
    assert!(!output.status.success(), "{config}");
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn properties_that_would_break_guarantees_are_refused() {
    let server = Server::start();
    for property in [
        "enable.idempotence",
        "acks",
        "request.required.acks",
        "enable.auto.commit",
        "partitioner",
        "transactional.id",
        "isolation.level",
        "bootstrap.servers",
        "group.id",
        "message.timeout.ms",
    ] {
        let more = format!("properties = {{ \"{property}\" = \"1\" }}");
        let error = refused(&server, &config("127.0.0.1:1", PARTITIONS, &more));
        assert!(error.contains(property), "{error}");
    }
}

/// librdkafka does not know them, or not their values.
#[test]
fn unknown_properties_are_refused() {
    let server = Server::start();
    for property in ["no.such.property\" = \"1", "socket.timeout.ms\" = \"soon"] {
        let more = format!("properties = {{ \"{property}\" }}");
        let error = refused(&server, &config("127.0.0.1:1", PARTITIONS, &more));
        let name = property.split('"').next().expect("a name");
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn an_archive_is_refused_with_a_topic() {
    let server = Server::start();
    let config = config("127.0.0.1:1", PARTITIONS, "") + "[log.archive]\ndir = \"/nowhere\"\n";
    let error = refused(&server, &config);
    let reason =
        "log.archive.dir: not with log.kind = \"kafka\": events in the topic would be missing";
    assert!(error.contains(reason), "{error}");
}

/// An archive does not have the events of the topic.
#[test]
fn a_restore_is_refused() {
    let server = Server::start();
    let mock = Mock::start(TOPIC_PARTITIONS);
    let config = config(&mock.addresses(), PARTITIONS, "");
    let output = run(&server, &config, &["restore"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{error}");
    let reason = "the archive has no events of the topic";
    assert!(error.contains(reason), "{error}");
}
