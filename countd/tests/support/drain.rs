//! Waits until the consumer has caught up.

use super::pause::pause;
use countint_tests::env::deadline;
use countint_tests::{Client, Server, Value, reply, wait_until};
use std::time::Instant;

/// Waits until every log is committed and every outbox is empty. Fails when there is no progress.
pub fn wait_until_drained(server: &Server, partitions: u16) {
    wait_until_all_drained([server], partitions);
}

/// [`wait_until_drained`] for the nodes of a cluster.
pub fn wait_until_all_drained<'a>(servers: impl IntoIterator<Item = &'a Server>, partitions: u16) {
    wait_until_clients_drained(
        servers.into_iter().map(Server::client).collect(),
        partitions,
    );
}

/// [`wait_until_drained`] for servers given by a connection to each.
pub fn wait_until_clients_drained(mut clients: Vec<Client>, partitions: u16) {
    let is_cluster = clients[0].info("cluster")["cluster_enabled"] == "1";
    let (mut before, mut since) = (i64::MAX, Instant::now());
    let mut count = || -> i64 {
        let waiting = clients
            .iter_mut()
            .map(|client| count_waiting(client, partitions, is_cluster));
        waiting.sum()
    };
    loop {
        // Two rounds: an entry forwarded from a partition not yet checked to one already checked is seen by the second.
        let now = count() + count();
        if now == 0 {
            return;
        }
        if now < before {
            (before, since) = (now, Instant::now());
        }
        assert!(
            since.elapsed() < deadline(120),
            "{now} entries are not committed"
        );
        pause();
    }
}

/// The number of entries that are not committed, or not forwarded.
fn count_waiting(client: &mut Client, partitions: u16, is_cluster: bool) -> i64 {
    let mut calls = Vec::new();
    for p in 0..partitions {
        let log = if is_cluster {
            format!("x:cnt-update:{{{p}}}")
        } else {
            format!("x:cnt-update:{p}")
        };
        let positions = if is_cluster { &log } else { "x:cnt-update" };
        // The position first: it is at most the end of the log that is read after it. In the other order, entries that are appended and
        // committed in between would be a negative number, and hide as many that are waiting elsewhere.
        for line in [
            format!("HGET {positions}:pos {p}"),
            format!("XINFO STREAM {log}"),
            format!("XLEN {log}:out"),
        ] {
            calls.push(line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        }
    }
    let replies = client.pipeline(&calls);
    let of_partition = |replies: &[Value]| {
        // The partition is on another node.
        if matches!(replies[0], Value::ServerError(_)) {
            return 0;
        }
        let last = match &replies[1] {
            Value::ServerError(_) => 0,
            info => last_offset(info.clone()),
        };
        let next = match &replies[0] {
            Value::Nil => 1,
            next => reply::text(next.clone()).parse().expect("a number"),
        };
        last + 1 - next + reply::int(replies[2].clone())
    };
    replies.chunks(3).map(of_partition).sum()
}

/// The last offset of a log, even if its entry was trimmed.
fn last_offset(info: Value) -> i64 {
    let info = reply::array(info);
    let mut pairs = info.chunks(2);
    let last = pairs.find(|pair| reply::text(pair[0].clone()) == "last-generated-id");
    let id = reply::text(last.expect("every stream has one")[1].clone());
    let number = id.strip_prefix("0-").and_then(|number| number.parse().ok());
    // A foreign last ID: the log will be renumbered.
    number.unwrap_or(i64::MAX / 4096)
}

/// Waits until counts by day of this number of metrics are kept. Until then, what counters hold becomes part of their days, even if it is wrong.
pub fn wait_until_days_are_kept(servers: &[Server], metrics: usize) {
    let is_on = |server: &Server| {
        // Other nodes of a cluster answer with an error.
        let Value::Array(states) = server.client().call(&["HVALS", "countd:days-init"]) else {
            return false;
        };
        let mut states = states.into_iter().map(reply::text);
        states.len() == metrics && states.all(|state| state.ends_with("/on"))
    };
    wait_until("counts by day are kept", || servers.iter().any(is_on));
}
