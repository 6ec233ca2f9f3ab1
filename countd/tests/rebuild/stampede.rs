//! Many readers of a lost counter.

use super::setup::*;
use crate::facts::setup::CONFIG;
use crate::support::{Settings, metric};
use countint_tests::env::deadline;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Barrier;

const READERS: usize = 1_000;
/// Each reader at once has a thread.
const THREADS: usize = 100;

pub fn a_thousand_readers_cause_one_rebuild(store: TestStore) {
    let (_countd, api) = start_countd(&store);
    let (command, config) = ("serve", CONFIG);
    let others: Vec<Countd> = (0..2)
        .map(|_| Countd::with(&store.server, &Settings { command, config }))
        .collect();
    let mut apis = vec![api];
    apis.extend(others.iter().map(Countd::api));
    act_on(&apis[0], [1]);
    lose(&store, 1);
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (api, barrier) = (apis[thread % apis.len()].clone(), &barrier);
            scope.spawn(move || {
                barrier.wait();
                for _ in 0..READERS / THREADS {
                    assert_eq!(api.counts(1), expected());
                }
            });
        }
    });
    assert_eq!(corrections(&store, 1), ALL);
    let rebuilds = apis.iter().map(|api| metric(api, "countd_rebuilds_total"));
    assert_eq!(rebuilds.sum::<u64>(), 1);
}

/// Connections of [`READERS`] requests that are all under way at once. Each sends its requests without waiting for answers.
const CONNECTIONS: usize = 250;

/// All requests are sent while another process has the lock. One of three processes rebuilds the counters when it is free.
pub fn a_thousand_requests_at_once_cause_one_rebuild(store: TestStore) {
    let (_countd, api) = start_countd(&store);
    act_on(&api, [1]);
    let (command, config) = ("serve", &format!("{CONFIG}[rebuild]\nwait_ms = 20000\n"));
    let processes: Vec<Countd> = (0..3)
        .map(|_| Countd::with(&store.server, &Settings { command, config }))
        .collect();
    lose(&store, 1);
    let lock = store.key("lock:sds-rebuild:note:", "1", "note:1");
    let mut client = store.server.client();
    client.ok(&format!("SET {lock} other"));
    let requests = "GET /counter/note/1 HTTP/1.1\r\nHost: test\r\n\r\n";
    let requests = requests.repeat(READERS / CONNECTIONS);
    let connections: Vec<BufReader<TcpStream>> = (0..CONNECTIONS)
        .map(|number| {
            let port = processes[number % processes.len()].port();
            let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
            let timeout = stream.set_read_timeout(Some(deadline(60)));
            timeout.expect("a timeout");
            stream.write_all(requests.as_bytes()).expect("sent");
            BufReader::new(stream)
        })
        .collect();
    client.ok(&format!("DEL {lock}"));
    for mut connection in connections {
        for _ in 0..READERS / CONNECTIONS {
            assert_eq!(read_counts(&mut connection), expected());
        }
    }
    assert_eq!(corrections(&store, 1), ALL);
    let rebuilds = processes
        .iter()
        .map(|countd| metric(&countd.api(), "countd_rebuilds_total"));
    assert_eq!(rebuilds.sum::<u64>(), 1);
}

/// Reads a response with counters.
fn read_counts(connection: &mut BufReader<TcpStream>) -> Json {
    let mut length = 0;
    loop {
        let mut line = String::new();
        connection.read_line(&mut line).expect("a header");
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().expect("a length");
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body).expect("a body");
    let response: Json = serde_json::from_slice(&body).expect("JSON");
    response["counts"].clone()
}
