//! Outages of consumers and of Redis: counting is delayed, and every event counts once.

use crate::poison::{PARTITIONS, append, read};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store, module, wait_until_up};
use crate::support::{Api, Countd, Settings, metric, on_note, set_schema, wait_until_drained};
use countint_tests::wait_until;
use serde_json::json;
use std::thread;
use std::time::Duration;

const NOTES: u64 = 100;
/// A short response timeout.
const CONFIG: &str = "[redis]\nresponse_timeout_ms = 200\n[log]\npartitions = 8\n[consumer]\nlinger_ms = 5\nsession_timeout_ms = 1000\n";

for_each_store! {
    [module cluster]
    events_count_once_after_a_server_was_out_of_memory
    events_count_once_after_a_server_was_loading
    events_count_once_after_a_server_did_not_answer
    events_count_once_when_connections_are_lost
    consumers_share_partitions_and_take_over_from_failed_members
}

/// Commands that append `each` reads of each note.
fn events(store: &TestStore, each: u64) -> Vec<Vec<Vec<u8>>> {
    let payloads = (0..each * NOTES).map(|i| read(i % NOTES, json!({})).to_string());
    payloads.map(|payload| append(store, payload)).collect()
}

fn args(line: &str) -> Vec<Vec<u8>> {
    line.split(' ')
        .map(|word| word.as_bytes().to_vec())
        .collect()
}

/// Asserts that each note has this many reads.
#[track_caller]
fn assert_counted(store: &TestStore, partitions: u16, api: &Api, each: u64) {
    wait_until_drained(&store.server, partitions);
    for note in 0..NOTES {
        assert_eq!(api.counts(note)["read"], json!(each), "note {note}");
    }
}

/// Waits until a worker has retried after this error.
#[track_caller]
fn assert_retried(countd: &Countd, error: &str) {
    wait_until(&format!("a worker retries: {error}"), || {
        let log = countd.log();
        let mut retries = log
            .lines()
            .filter(|line| line.contains("worker failed; will retry"));
        retries.any(|line| line.contains(error))
    });
    assert!(metric(&countd.api(), "countd_consumer_retries_total") > 0);
}

#[track_caller]
fn assert_unavailable(api: &Api) {
    let response = api.request("/action/read", &[], Some(&on_note(1_000, 42)));
    assert_eq!(response.status, 503, "{}", response.json);
    assert_eq!(response.json["code"], "unavailable");
    assert!(response.retry_after.is_some());
}

fn events_count_once_after_a_server_was_out_of_memory(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let mut client = store.server.client();
    for round in 1..=3 {
        // One pipeline: memory is full before the last events are committed.
        let mut commands = events(&store, 10);
        commands.push(args("CONFIG SET maxmemory 1"));
        client.pipeline(&commands);
        assert_retried(&countd, "OOM");
        assert_unavailable(&countd.api());
        client.ok("CONFIG SET maxmemory 0");
        assert_counted(&store, PARTITIONS, &countd.api(), 10 * round);
    }
}

#[test]
fn events_count_once_after_a_server_was_read_only() {
    let store = module();
    let server = &store.server;
    let countd = Countd::start(server, CONFIG);
    let mut client = server.client();
    client.pipeline(&events(&store, 5));
    assert_counted(&store, PARTITIONS, &countd.api(), 5);
    // The server becomes a replica of its former replica, which gets the next events.
    let other = server.replica();
    server.wait_for_replica(&other);
    other.client().ok("REPLICAOF NO ONE");
    client.ok(&format!("REPLICAOF 127.0.0.1 {}", other.port()));
    server.wait_for_link();
    other.client().pipeline(&events(&store, 20));
    assert_retried(&countd, "read only replica");
    assert_unavailable(&countd.api());
    other.wait_for_replica(server);
    client.ok("REPLICAOF NO ONE");
    assert_counted(&store, PARTITIONS, &countd.api(), 25);
}

fn events_count_once_after_a_server_was_loading(mut store: TestStore) {
    let config = &CONFIG.replace("response_timeout_ms = 200", "");
    let countd = Countd::start(&store.server, config);
    store.server.client().pipeline(&events(&store, 200));
    // The nodes of a cluster start one after the other, and refuse everything until all are there.
    let error = match store.is_cluster() {
        true => "Redis is not available",
        false => "loading the dataset",
    };
    let server = &mut store.server;
    server.kill();
    // Microseconds for each command. The server replies once for each thousand commands.
    server.configure("key-load-delay 100");
    thread::scope(|scope| {
        let starting = scope.spawn(|| server.start_again());
        assert_retried(&countd, error);
        assert_unavailable(&countd.api());
        starting.join().expect("it starts");
    });
    wait_until_up(std::slice::from_ref(server));
    assert_counted(&store, PARTITIONS, &countd.api(), 200);
}

fn events_count_once_after_a_server_did_not_answer(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let mut client = store.server.client();
    for round in 1..=5 {
        client.pipeline(&events(&store, 10));
        // At a random point between read and commit.
        store.server.signal("STOP");
        thread::sleep(Duration::from_millis(300));
        if round == 1 {
            assert_retried(&countd, "timed out");
            assert_unavailable(&countd.api());
        }
        store.server.signal("CONT");
    }
    assert_counted(&store, PARTITIONS, &countd.api(), 50);
}

fn events_count_once_when_connections_are_lost(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let mut client = store.server.client();
    for _ in 0..30 {
        let mut commands = events(&store, 2);
        commands.push(args("CLIENT KILL TYPE normal"));
        client.pipeline(&commands);
        thread::sleep(Duration::from_millis(20));
    }
    // An idle connection is found broken at its next use.
    wait_until("countd is connected again", || {
        countd.api().get("/counter/note/1").0 == 200
    });
    assert_counted(&store, PARTITIONS, &countd.api(), 60);
    assert!(metric(&countd.api(), "countd_consumer_retries_total") > 0);
}

fn consumers_share_partitions_and_take_over_from_failed_members(store: TestStore) {
    const PARTITIONS: u16 = 64;
    let server = &store.server;
    let config = &CONFIG.replace("partitions = 8", "partitions = 64");
    set_schema(server, config);
    let start = |command| Countd::with(server, &Settings { command, config });
    let (mut first, mut second, serve) = (start("consume"), start("consume"), start("serve"));
    let mut client = server.client();
    wait_until("both are members", || {
        client.run("ZCARD countd:consumers") == "(integer) 2"
    });
    let api = serve.api();
    let mut done = 0;
    // Each consumer has partitions.
    wait_until("both commit", || {
        send_reads(&api, 10);
        done += 10;
        wait_until_drained(server, PARTITIONS);
        let applied = |one: &Countd| metric(&one.api(), "countd_events_applied_total");
        applied(&first) > 0 && applied(&second) > 0
    });
    assert_counted(&store, PARTITIONS, &api, done);
    // One consumer is killed while events arrive, and the other takes over its partitions. Then they change roles.
    for _ in 0..2 {
        send_reads(&api, 10);
        first.kill();
        send_reads(&api, 10);
        done += 20;
        assert_counted(&store, PARTITIONS, &api, done);
        first.launch();
        wait_until("both are members again", || {
            client.run("ZCARD countd:consumers") == "(integer) 2"
        });
        std::mem::swap(&mut first, &mut second);
    }
    assert_invariants(server, config);
}

/// Sends `each` reads of each note.
fn send_reads(api: &Api, each: u64) {
    let lines: Vec<String> = (0..each * NOTES)
        .map(|i| {
            json!({ "metric": "read", "etype": "note", "eid": i % NOTES, "uid": i }).to_string()
        })
        .collect();
    let (status, _) = api
        .try_post("/actions", &lines.join("\n"))
        .expect("a response");
    assert_eq!(status, 200);
}
