//! Trimming of logs some time after their entries were counted.

use crate::support::{Countd, on_note};
use countint_tests::{Client, Server, args, reply, wait_until};

/// The script that trims, which runs at any time.
const TRIM: &str = include_str!("../src/lua/log_trim.lua");
const LOG: &str = "x:cnt-update:7";
const POSITIONS: &str = "x:cnt-update:pos";

/// Appends entries with the IDs from `first` to `last`.
fn append(client: &mut Client, first: u64, last: u64) {
    for offset in first..=last {
        let id = format!("0-{offset}");
        client.call(&args!["XADD", LOG, id, "e", "x".repeat(200)]);
    }
}

/// Trims, and returns the number of entries that are left.
fn trim(client: &mut Client) -> i64 {
    trim_before(client, "")
}

/// The same while a sink has read the entries before this offset.
fn trim_before(client: &mut Client, held: &str) -> i64 {
    let reply = client.call(&args!["EVAL", TRIM, 2, POSITIONS, LOG, 7, 16, held]);
    assert_eq!(reply::format(&reply), "(nil)");
    length(client, 7)
}

fn length(client: &mut Client, partition: u16) -> i64 {
    reply::int(client.ok(&format!("XLEN x:cnt-update:{partition}")))
}

#[test]
fn only_counted_entries_are_trimmed_later() {
    let server = Server::start();
    let mut client = server.client();
    append(&mut client, 1, 300);
    assert_eq!(trim(&mut client), 300, "there is no position");
    client.ok(&format!("HSET {POSITIONS} 7 x"));
    assert_eq!(trim(&mut client), 300, "the position is damaged");
    client.ok(&format!("HSET {POSITIONS} 7 10"));
    assert_eq!(trim(&mut client), 300, "fewer are counted than retained");
    client.ok(&format!("HSET {POSITIONS} 7 201"));
    let left = trim(&mut client);
    assert!(
        (116..250).contains(&left),
        "100 are uncounted, 16 retained: {left}"
    );
    let first = client.run(&format!("XRANGE {LOG} 0-185 0-185"));
    assert!(first.contains("0-185"), "{first}");
    assert_eq!(trim(&mut client), left);
}

/// An operator has deleted the log, and it has new entries. They have not been counted, although they are before the position.
#[test]
fn a_restarted_log_is_not_trimmed() {
    let server = Server::start();
    let mut client = server.client();
    client.ok(&format!("HSET {POSITIONS} 7 201"));
    assert_eq!(trim(&mut client), 0, "there is no log");
    append(&mut client, 1, 150);
    assert_eq!(trim(&mut client), 150);
    client.ok(&format!("XADD {LOG} 5-1 e foreign"));
    assert_eq!(trim(&mut client), 151, "a foreign ID");
    client.ok(&format!("DEL {LOG}"));
    client.ok(&format!("SET {LOG} text"));
    let reply = client.call(&args!["EVAL", TRIM, 2, POSITIONS, LOG, 7, 16, ""]);
    assert_eq!(reply::format(&reply), "(nil)");
}

#[test]
fn entries_that_a_sink_has_not_read_are_not_trimmed() {
    let server = Server::start();
    let mut client = server.client();
    append(&mut client, 1, 300);
    client.ok(&format!("HSET {POSITIONS} 7 301"));
    assert_eq!(trim_before(&mut client, "1"), 300);
    let left = trim_before(&mut client, "151");
    assert!((166..300).contains(&left), "{left}");
    let first = client.run(&format!("XRANGE {LOG} 0-135 0-135"));
    assert!(first.contains("0-135"), "{first}");
    assert!(trim(&mut client) < left);
}

/// After load, logs become short although nothing follows.
#[test]
fn idle_logs_are_trimmed() {
    let server = Server::start();
    let countd = Countd::start(&server, "[log]\npartitions = 4\n");
    let api = countd.api();
    for uid in 1..=6 {
        for eid in 0..60 {
            api.ok(api.post("/action/read", &on_note(eid, uid)));
        }
    }
    let mut client = server.client();
    wait_until("logs are trimmed", || {
        let lengths = (0..4).map(|partition| length(&mut client, partition));
        lengths.sum::<i64>() < 4 * (16 + 50)
    });
}
