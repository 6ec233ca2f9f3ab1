//! Keyspace events: their classes and channels, and that reads publish nothing. noops.rs checks the exact events of
//! every write command with all classes enabled.

use crate::keys::KEYS;
use crate::observer::{events, pushes};
use crate::writes::{CHANGES, NOOPS, registered};
use countint_tests::{Client, Server, reply};
use std::collections::BTreeSet;

/// A client, a subscriber to all keyspace events, and their server, which publishes these classes.
fn server_with(classes: &str) -> (Client, Client, Server) {
    let server = Server::builder()
        .config(&format!("notify-keyspace-events \"{classes}\""))
        .start();
    let mut subscriber = server.client3();
    subscriber.ok("PSUBSCRIBE __key*__:*");
    (server.client(), subscriber, server)
}

/// The published messages: channel and content.
fn published(subscriber: &mut Client) -> Vec<String> {
    let messages = pushes(subscriber).into_iter().map(|message| {
        // The first element is the pattern.
        let words: Vec<String> = message.into_iter().skip(1).map(reply::text).collect();
        words.join(" ")
    });
    messages.collect()
}

fn run_all(client: &mut Client, lines: &[&str]) {
    for line in lines {
        client.ok(line);
    }
}

/// Runs every change on a server that publishes these classes, and expects the events that `of` accepts.
fn check_class(classes: &str, of: impl Fn(&str) -> bool) {
    let (mut client, mut subscriber, _server) = server_with(classes);
    for change in CHANGES {
        client.ok("FLUSHALL");
        run_all(&mut client, change.setup);
        published(&mut subscriber);
        client.ok(change.line);
        let events = change.events.iter().filter(|event| of(event));
        let expected: Vec<String> = events
            .map(|event| format!("__keyevent@0__:{event} k"))
            .collect();
        let got = published(&mut subscriber);
        assert_eq!(got, expected, "classes {classes}: {}", change.line);
    }
}

#[test]
fn each_event_has_its_class() {
    let is_del = |event: &str| event == "del";
    check_class("Ed", |event| !is_del(event));
    check_class("Eg", is_del);
    check_class("Edg", |_| true);
    // The classes of other types, of expiry and of eviction.
    check_class("E$lshztxe", |_| false);
    // A class without K or E.
    check_class("dg", |_| false);
}

#[test]
fn channels_name_the_key_the_event_and_the_database() {
    let (mut client, mut subscriber, _server) = server_with("KEA");
    run_all(
        &mut client,
        &["SELECT 7", "RBM.ADD \"a b\" 1", "RBM.REM \"a b\" 1"],
    );
    let expected = ["rbm.add", "rbm.rem", "del"].map(|event| {
        [
            format!("__keyspace@7__:a b {event}"),
            format!("__keyevent@7__:{event} a b"),
        ]
    });
    assert_eq!(published(&mut subscriber), expected.concat());
}

#[test]
fn reads_publish_nothing() {
    let (mut client, mut subscriber, _server) = server_with("KEA");
    run_all(
        &mut client,
        &["CINT.SET c 0 5", "RBM.ADD r 1 2", "CTAB.SET t 1 0 5"],
    );
    published(&mut subscriber);
    let mut reads = BTreeSet::new();
    for row in KEYS.iter().filter(|row| !row.writes()) {
        client.ok(row.line);
        assert_eq!(published(&mut subscriber), [""; 0], "{}", row.line);
        reads.insert(row.command());
    }
    assert_eq!(reads, registered(&mut client, "readonly"));
}

/// The class `n`, which `A` does not include, publishes `new` before the command's own event.
#[test]
fn new_key_publishes_new_once() {
    let (mut client, mut subscriber, _server) = server_with("EKnA");
    run_all(&mut client, &["CINT.INCRBY k 0 1", "CINT.INCRBY k 0 1"]);
    let got = events(&pushes(&mut subscriber));
    assert_eq!(got, ["new k", "cint.incrby k", "cint.incrby k"]);
    for idle in NOOPS {
        client.ok("FLUSHALL");
        run_all(&mut client, idle.setup);
        published(&mut subscriber);
        client.line(idle.line);
        assert_eq!(published(&mut subscriber), [""; 0], "{}", idle.line);
    }
}
