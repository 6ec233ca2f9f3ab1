//! Waiting until all that was done is counted.

use super::pause;
use countint_tests::env::deadline;
use countint_tests::{Client, Server, Value, reply};
use std::time::Instant;

/// Waits until every log is counted and every outbox empty; gives up when there is no progress.
pub fn wait_until_drained(server: &Server, partitions: u16) {
    wait_until_all_drained([server], partitions);
}

/// The same for the nodes of a cluster.
pub fn wait_until_all_drained<'a>(servers: impl IntoIterator<Item = &'a Server>, partitions: u16) {
    wait_until_clients_drained(
        servers.into_iter().map(Server::client).collect(),
        partitions,
    );
}

/// The same for servers that are known by a connection to each.
pub fn wait_until_clients_drained(mut clients: Vec<Client>, partitions: u16) {
    let is_cluster = clients[0].info("cluster")["cluster_enabled"] == "1";
    let (mut before, mut since) = (i64::MAX, Instant::now());
    let mut look = || -> i64 {
        let waiting = clients
            .iter_mut()
            .map(|client| waiting(client, partitions, is_cluster));
        waiting.sum()
    };
    loop {
        // Twice: what is handed over between looking at the one and at the other partition is seen then.
        let now = look() + look();
        if now == 0 {
            return;
        }
        if now < before {
            (before, since) = (now, Instant::now());
        }
        assert!(
            since.elapsed() < deadline(60),
            "{now} entries are never counted"
        );
        pause();
    }
}

/// How many entries are not counted, or not handed over.
fn waiting(client: &mut Client, partitions: u16, is_cluster: bool) -> i64 {
    let mut calls = Vec::new();
    for p in 0..partitions {
        let log = if is_cluster {
            format!("x:cnt-update:{{{p}}}")
        } else {
            format!("x:cnt-update:{p}")
        };
        let positions = if is_cluster { &log } else { "x:cnt-update" };
        for line in [
            format!("XINFO STREAM {log}"),
            format!("HGET {positions}:pos {p}"),
            format!("XLEN {log}:out"),
        ] {
            calls.push(line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        }
    }
    let replies = client.pipeline(&calls);
    let of_partition = |replies: &[Value]| {
        // Another node has it.
        if matches!(replies[1], Value::ServerError(_)) {
            return 0;
        }
        let last = match &replies[0] {
            Value::ServerError(_) => 0,
            about => last_offset(about.clone()),
        };
        let next = match &replies[1] {
            Value::Nil => 1,
            next => reply::text(next.clone()).parse().expect("a number"),
        };
        last + 1 - next + reply::int(replies[2].clone())
    };
    replies.chunks(3).map(of_partition).sum()
}

/// The last offset that a log gave, also if that entry is gone.
fn last_offset(about: Value) -> i64 {
    let about = reply::array(about);
    let mut pairs = about.chunks(2);
    let last = pairs.find(|pair| reply::text(pair[0].clone()) == "last-generated-id");
    let id = reply::text(last.expect("every stream has one")[1].clone());
    let number = id.strip_prefix("0-").and_then(|number| number.parse().ok());
    // It is to be renumbered.
    number.unwrap_or(i64::MAX / 4096)
}
