//! Consumers go away, and so does Redis, in every way it has: counting waits, and goes on without having skipped or repeated anything.

use crate::poison::{PARTITIONS, append, read};
use crate::support::{Api, Countd, Settings, metric, on_note, set_schema, wait_until_drained};
use countint_tests::{Server, wait_until};
use serde_json::json;
use std::thread;
use std::time::Duration;

const NOTES: u64 = 100;
/// Redis is given up soon.
const CONFIG: &str = "[redis]\nresponse_timeout_ms = 200\n[log]\npartitions = 8\n[consumer]\nlinger_ms = 5\ndead_after_ms = 1000\n";

/// A server that keeps what it has acknowledged, and a countd that does everything.
fn start() -> (Server, Countd) {
    let server = Server::builder().append_only(true).start();
    let countd = Countd::start(&server, CONFIG);
    (server, countd)
}

/// Commands that append so many events for each note.
fn events(each: u64) -> Vec<Vec<Vec<u8>>> {
    let all = (0..each * NOTES).map(|i| append(read(i % NOTES, json!({})).to_string()));
    all.collect()
}

fn args(line: &str) -> Vec<Vec<u8>> {
    line.split(' ')
        .map(|word| word.as_bytes().to_vec())
        .collect()
}

/// Each note was read so often.
#[track_caller]
fn assert_counted(server: &Server, partitions: u16, api: &Api, each: u64) {
    wait_until_drained(server, partitions);
    for note in 0..NOTES {
        assert_eq!(api.counts(note)["read"], json!(each), "note {note}");
    }
}

/// Counting had to wait, and nobody was told that he was done who was not.
#[track_caller]
fn assert_retried(countd: &Countd, error: &str) {
    wait_until(&format!("counting waits: {error}"), || {
        let log = countd.log();
        let mut waits = log
            .lines()
            .filter(|line| line.contains("worker failed; will retry"));
        waits.any(|line| line.contains(error))
    });
    assert!(metric(&countd.api(), "countd_consumer_retries_total") > 0);
}

#[track_caller]
fn assert_unavailable(api: &Api) {
    let response = api.request("/action/read", &[], Some(&on_note(1_000, 42)));
    assert_eq!(response.status, 503, "{}", response.json);
    assert_eq!(response.json["error"]["code"], "unavailable");
    assert!(response.retry_after.is_some());
}

#[test]
fn a_full_server_delays_but_nothing_is_skipped() {
    let (server, countd) = start();
    let mut client = server.client();
    for round in 1..=3 {
        // Nothing comes between the last events and the end of memory, so these have to wait.
        let mut commands = events(10);
        commands.push(args("CONFIG SET maxmemory 1"));
        client.pipeline(&commands);
        assert_retried(&countd, "OOM");
        assert_unavailable(&countd.api());
        client.ok("CONFIG SET maxmemory 0");
        assert_counted(&server, PARTITIONS, &countd.api(), 10 * round);
    }
}

#[test]
fn a_read_only_server_delays_but_nothing_is_skipped() {
    let (server, countd) = start();
    let mut client = server.client();
    client.pipeline(&events(5));
    assert_counted(&server, PARTITIONS, &countd.api(), 5);
    // Its replica becomes its master, and gets what is appended meanwhile.
    let other = server.replica();
    server.wait_for_replica(&other);
    other.client().ok("REPLICAOF NO ONE");
    client.ok(&format!("REPLICAOF 127.0.0.1 {}", other.port()));
    server.wait_for_link();
    other.client().pipeline(&events(20));
    assert_retried(&countd, "read only replica");
    assert_unavailable(&countd.api());
    other.wait_for_replica(&server);
    client.ok("REPLICAOF NO ONE");
    assert_counted(&server, PARTITIONS, &countd.api(), 25);
}

#[test]
fn a_server_that_loads_its_data_delays_but_nothing_is_skipped() {
    let mut server = Server::builder().append_only(true).start();
    let config = &CONFIG.replace("response_timeout_ms = 200", "");
    let countd = Countd::start(&server, config);
    server.client().pipeline(&events(200));
    server.kill();
    // So many microseconds for each command; it answers every thousand of them.
    server.configure("key-load-delay 100");
    thread::scope(|scope| {
        let starting = scope.spawn(|| server.start_again());
        assert_retried(&countd, "loading the dataset");
        assert_unavailable(&countd.api());
        starting.join().expect("it starts");
    });
    assert_counted(&server, PARTITIONS, &countd.api(), 200);
}

#[test]
fn a_server_that_does_not_answer_delays_but_nothing_is_skipped() {
    let (server, countd) = start();
    let mut client = server.client();
    for round in 1..=5 {
        client.pipeline(&events(10));
        // Somewhere between reading and counting.
        server.signal("STOP");
        thread::sleep(Duration::from_millis(300));
        if round == 1 {
            assert_retried(&countd, "timed out");
            assert_unavailable(&countd.api());
        }
        server.signal("CONT");
    }
    assert_counted(&server, PARTITIONS, &countd.api(), 50);
}

#[test]
fn connections_that_are_lost_skip_and_repeat_nothing() {
    let (server, countd) = start();
    let mut client = server.client();
    for _ in 0..30 {
        let mut commands = events(2);
        commands.push(args("CLIENT KILL TYPE normal"));
        client.pipeline(&commands);
        thread::sleep(Duration::from_millis(20));
    }
    // A connection that nobody used is found broken when somebody does.
    wait_until("it is connected again", || {
        countd.api().get("/counter/note/1").0 == 200
    });
    assert_counted(&server, PARTITIONS, &countd.api(), 60);
    assert!(metric(&countd.api(), "countd_consumer_retries_total") > 0);
}

#[test]
fn consumers_share_the_log_and_take_over_from_the_dead() {
    const PARTITIONS: u16 = 64;
    let server = Server::start();
    let config = &CONFIG.replace("partitions = 8", "partitions = 64");
    set_schema(&server, config);
    let start = |command| Countd::with(&server, &Settings { command, config });
    let (mut first, mut second, serve) = (start("consume"), start("consume"), start("serve"));
    let mut client = server.client();
    wait_until("both are there", || {
        client.run("ZCARD countd:consumers") == "(integer) 2"
    });
    let api = serve.api();
    let mut done = 0;
    // Each has its part.
    wait_until("both count", || {
        act(&api, 10);
        done += 10;
        wait_until_drained(&server, PARTITIONS);
        let applied = |one: &Countd| metric(&one.api(), "countd_events_applied_total");
        applied(&first) > 0 && applied(&second) > 0
    });
    assert_counted(&server, PARTITIONS, &api, done);
    // One dies in the midst of it: the other one goes on where it was, and so the other way round.
    for _ in 0..2 {
        act(&api, 10);
        first.kill();
        act(&api, 10);
        done += 20;
        assert_counted(&server, PARTITIONS, &api, done);
        first.launch();
        wait_until("both are there again", || {
            client.run("ZCARD countd:consumers") == "(integer) 2"
        });
        std::mem::swap(&mut first, &mut second);
    }
}

/// So many reads of each note.
fn act(api: &Api, each: u64) {
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
