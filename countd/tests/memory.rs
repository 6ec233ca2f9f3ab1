//! Memory bounds of countd for expensive bodies and entries, and of Redis afterwards.

use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Countd, Settings, metric, on_note, printed, run, set_schema, with};
use countint_tests::env::deadline;
use countint_tests::{Client, Server, reply, wait_until};
use serde_json::{Value as Json, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

const MB: usize = 1 << 20;
/// The default of `http.max_body_bytes`.
const BODY: usize = 4 * MB;
/// The default of `http.max_bodies_bytes`, and the documented maximum of memory as a multiple of it.
const BODIES: usize = 64 * MB;
const MULTIPLE: usize = 4;
/// The number of concurrent requests.
const CLIENTS: usize = 24;

/// A text of this length that repeats a piece between a start and an end.
fn filled(start: &str, piece: &str, end: &str, length: usize) -> String {
    let room = length - start.len() - end.len();
    format!("{start}{}{end}", piece.repeat(room / piece.len()))
}

/// A JSON array of this length.
fn array(item: &str, length: usize) -> String {
    let body = filled("[", &format!("{item},"), "", length - 2);
    format!("{}]", body.trim_end_matches(','))
}

fn envelope(event_id: u64, more: &str) -> String {
    format!(
        r#"{{"event_id":{event_id},"event_type":"read","aggregate_type":"note","aggregate_id":{},"payload":{{"delta":1,"uid":{event_id}{more}}}}}"#,
        event_id % 1_000
    )
}

/// Bodies of 4 MB that are expensive to parse: path, content type, body, and the allowed statuses.
fn expensive_bodies() -> Vec<(&'static str, &'static str, String, Vec<u16>)> {
    const JSON: &str = "application/json";
    const LINES: &str = "application/x-ndjson";
    let nested = format!("{}{}", "[".repeat(BODY / 2), "]".repeat(BODY / 2));
    let many: Vec<String> = (0..2_000)
        .map(|id| envelope(id, &format!(r#","more":"{}""#, "x".repeat(1_900))))
        .collect();
    let small: Vec<String> = (0..10_000).map(|id| envelope(id, "")).collect();
    let padded = |field: &str, text: &str| {
        let start = format!(r#"[{},"{field}":""#, envelope(1, "").trim_end_matches('}'));
        filled(&start, text, r#""}}]"#, BODY)
    };
    let action = r#"{"metric":"follow","eid":1,"uid":1}"#;
    vec![
        ("/events", JSON, array(r#"{"":0}"#, BODY), vec![413]),
        ("/events", JSON, nested.clone(), vec![400]),
        ("/events", JSON, format!("[{}]", many.join(",")), vec![200]),
        ("/events", LINES, small.join("\n"), vec![200]),
        ("/events", LINES, "\n".repeat(BODY), vec![413]),
        ("/events", JSON, padded("traceId", "x"), vec![200]),
        ("/events", JSON, padded("more", "\\u0001"), vec![200]),
        ("/events", JSON, padded("uid2\\\"", "\u{200b}"), vec![200]),
        (
            "/events",
            JSON,
            filled("{\"", "\\\"", "\":0}", BODY),
            vec![400],
        ),
        (
            "/events",
            JSON,
            filled("{\"event_type\":\"", "\\n", "\"}", BODY),
            vec![400],
        ),
        ("/actions", LINES, "\n".repeat(BODY), vec![413]),
        (
            "/actions",
            LINES,
            vec![action; 10_000].join("\n"),
            vec![200],
        ),
        (
            "/actions",
            LINES,
            filled("{\"", "\\\"", "\":0}", BODY),
            vec![200],
        ),
        (
            "/action/like",
            JSON,
            filled("{\"uid\":\"", "\u{200b}", "\"}", BODY),
            vec![400],
        ),
        ("/action/like", JSON, nested, vec![400]),
        (
            "/counter/reset",
            JSON,
            filled("{\"", "\\\"", "\":0}", BODY),
            vec![400],
        ),
        (
            "/relation/counter/batch",
            JSON,
            format!("{{\"uids\":{}}}", array("0", BODY - 9)),
            vec![413],
        ),
        (
            "/counter/batch",
            JSON,
            format!("{{\"items\":[],\"metrics\":{}}}", array("\"a\"", BODY - 24)),
            vec![413],
        ),
        (
            "/counter/batch",
            JSON,
            format!(
                "{{\"items\":{}}}",
                array(r#"{"etype":"a","eid":1}"#, BODY - 10)
            ),
            vec![413],
        ),
        (
            "/status/batch",
            JSON,
            format!(
                "{{\"uid\":1,\"metrics\":[\"like\"],\"items\":{}}}",
                array("{}", BODY - 40)
            ),
            vec![413],
        ),
    ]
}

/// Posts a body, with a long timeout.
fn post(port: u16, path: &str, of: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    let limit = Some(deadline(120));
    stream.set_read_timeout(limit).expect("a timeout");
    stream.set_write_timeout(limit).expect("a timeout");
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {of}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("it is taken");
    // The server need not read all of a refused body.
    let _ = stream.write_all(body.as_bytes());
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response);
    let response = String::from_utf8_lossy(&response).into_owned();
    let status = response
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    (status.unwrap_or(0), response)
}

/// Sends a body from many clients concurrently. Each response has one of these statuses, or asks the client to retry.
fn send(countd: &Countd, path: &str, of: &str, body: &str, statuses: &[u16]) {
    let port = countd.port();
    let one = || {
        let (status, text) = post(port, path, of, body);
        // A connection that is closed early can lose its response.
        let is_busy = status == 0 || status == 503 && text.contains("\"busy\"");
        assert!(
            statuses.contains(&status) || is_busy,
            "{path}: {status}: {text:.300}"
        );
        u32::from(!is_busy)
    };
    let answered: u32 = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(one)).collect();
        let responses = clients
            .into_iter()
            .map(|client| client.join().expect("it ends"));
        responses.sum()
    });
    assert!(answered > 0, "{path}: all are refused");
}

#[test]
fn memory_for_concurrent_bodies_is_bounded() {
    let server = Server::start();
    let config = "[redis]\nresponse_timeout_ms = 60000\n[http]\ntimeout_ms = 120000\n[limits.user]\nper_second = 0\n";
    set_schema(&server, config);
    let command = "serve";
    for (path, of, body, statuses) in expensive_bodies() {
        assert!(body.len() <= BODY, "{path}: {}", body.len());
        let countd = Countd::with(&server, &Settings { command, config });
        assert_eq!(countd.api().get("/readyz").0, 200);
        let before = countd.memory("VmRSS");
        send(&countd, path, of, &body, &statuses);
        let used = countd.memory("VmHWM").saturating_sub(before);
        let start: String = body.chars().take(30).collect();
        eprintln!("{} MB under {CLIENTS} of {path} {start:?}", used / MB);
        assert!(
            used <= MULTIPLE * (BODIES + 2 * BODY),
            "{path} {start:?}: {used} bytes"
        );
    }
}

/// A configuration with small limits.
const BOUNDED: &str = "[log]\npartitions = 16\nretain_bytes = 100000\n\
    [consumer]\nlinger_ms = 5\nread_bytes = 8388608\nsession_timeout_ms = 500\n\
    [dead]\npayload_bytes = 1000\nmax_bytes = 200000\n";
const PARTITIONS: u16 = 16;
const READ_BYTES: usize = 8 * MB;
const RETAIN_BYTES: i64 = 100_000;
const DEAD_BYTES: i64 = 200_000;
/// The documented maximum of a worker's memory as a multiple of `consumer.read_bytes`.
const READS: usize = 4;
/// The number of workers for a node.
const WORKERS: usize = 2;

fn start(store: &TestStore, command: &'static str) -> Countd {
    let config = BOUNDED;
    Countd::with(&store.server, &Settings { command, config })
}

/// The memory usage of a key in bytes.
fn bytes(client: &mut Client, key: &str) -> i64 {
    let found = client.call(&["MEMORY", "USAGE", key, "SAMPLES", "0"]);
    match found {
        countint_tests::Value::Nil => 0,
        found => reply::int(found),
    }
}

/// The log of a note's partition.
fn log(store: &TestStore, eid: u64) -> String {
    store.log(TestStore::partition(&format!("note:{eid}"), PARTITIONS))
}

/// A read of a note, with an unknown field of this length.
fn padded(eid: u64, padding: usize) -> String {
    let more = json!({ "metric": "read", "delta": 1, "more": "x".repeat(padding) });
    with(on_note(eid, 9), more).to_string()
}

fn append(client: &mut Client, log: &str, field: &str, payload: &str) {
    client.call(&["XADD", log, "0-*", field, payload]);
}

fn list_dead_letters(store: &TestStore) -> Vec<Json> {
    let listed = printed(&run(&store.server, BOUNDED, &["dead", "list"]));
    let dead_letters = listed.lines().map(serde_json::from_str);
    dead_letters
        .map(|dead_letter| dead_letter.expect("JSON"))
        .collect()
}

/// Unknown fields of envelopes are not stored.
fn unknown_fields_do_not_reach_the_log(store: TestStore) {
    const EACH: u64 = 40;
    set_schema(&store.server, BOUNDED);
    let server = start(&store, "serve");
    let padding = "x".repeat(90_000);
    for request in 0..3 {
        let ids = request * EACH..(request + 1) * EACH;
        let (mut array, mut lines) = (Vec::new(), Vec::new());
        for id in ids {
            array.push(envelope(id, &format!(r#","more":["{padding}"]"#)));
            lines.push(envelope(id + 1_000, &format!(r#","traceId":"{padding}""#)));
        }
        let sent = [
            ("application/json", format!("[{}]", array.join(","))),
            ("application/x-ndjson", lines.join("\n")),
        ];
        for (of, body) in sent {
            let (status, response) = post(server.port(), "/events", of, &body);
            assert_eq!(status, 200, "{response}");
        }
    }
    let mut client = store.server.client();
    let logs = (0..PARTITIONS).map(|partition| bytes(&mut client, &store.log(partition)));
    let all: i64 = logs.sum();
    assert!(all < 6 * EACH as i64 * 1_000, "{all} bytes");
    let _consumer = start(&store, "consume");
    wait_until("all are counted", || {
        let counts = (0..3 * EACH).map(|eid| server.api().counts(eid)["read"] == 2);
        counts.min() == Some(true)
    });
}

/// The consumer reads few long entries at a time, and trims the log by its size in bytes.
fn long_entries_are_read_in_parts_and_trimmed(store: TestStore) {
    const NOTES: u64 = 8;
    const ENTRIES: u64 = 30;
    const LENGTH: usize = 4 * MB;
    set_schema(&store.server, BOUNDED);
    let idle = {
        let consumer = start(&store, "consume");
        assert_eq!(consumer.api().get("/readyz").0, 200);
        wait_until("partitions are assigned", || {
            consumer.log().contains("partitions assigned")
        });
        consumer.memory("VmHWM")
    };
    let mut client = store.server.client();
    for entry in 0..ENTRIES {
        append(
            &mut client,
            &log(&store, entry % NOTES),
            "e",
            &padded(entry % NOTES, LENGTH),
        );
    }
    append(&mut client, &log(&store, 1), "e", &padded(1, READ_BYTES));
    append(&mut client, &log(&store, 1), "e", &padded(1, 10));
    let consumer = start(&store, "consume");
    let server = start(&store, "serve");
    wait_until("all are counted", || {
        let counts = (0..NOTES).map(|eid| server.api().counts(eid)["read"].as_u64());
        counts.map(|count| count.unwrap_or(0)).sum::<u64>() == ENTRIES + 1
    });
    wait_until("the logs are trimmed", || {
        (0..PARTITIONS).all(|partition| {
            // The log can grow by as much again before the next acknowledgement.
            bytes(&mut client, &store.log(partition)) <= 2 * RETAIN_BYTES
        })
    });
    let dead_letters = list_dead_letters(&store);
    assert_eq!(dead_letters.len(), 1, "{dead_letters:?}");
    let reason = dead_letters[0]["reason"].as_str().expect("a reason");
    assert!(reason.starts_with("too long"), "{reason}");
    assert_eq!(
        dead_letters[0]["payload"].as_str().map(str::len),
        Some(1_000)
    );
    assert!(dead_letters[0]["bytes"].as_u64() > Some(READ_BYTES as u64));
    let used = consumer.memory("VmHWM").saturating_sub(idle);
    eprintln!("{} MB for {ENTRIES} entries of 4 MB", used / MB);
    assert!(used <= WORKERS * READS * READ_BYTES, "{used} bytes");
}

/// Dead letters that are not events are truncated, and the oldest are removed above the configured size.
fn dead_letters_are_bounded(store: TestStore) {
    const JUNK: u64 = 400;
    set_schema(&store.server, BOUNDED);
    let (consumer, server) = (start(&store, "consume"), start(&store, "serve"));
    let (mut client, log) = (store.server.client(), log(&store, 1));
    let dead = store.dead(TestStore::partition("note:1", PARTITIONS));
    let junk = format!("{{}}{}x", " ".repeat(10_000));
    for _ in 0..JUNK {
        append(&mut client, &log, "e", &junk);
    }
    let api = consumer.api();
    wait_until("they are dead letters", || {
        metric(&api, "countd_events_dead_total") == JUNK
    });
    wait_until("the oldest are removed", || {
        bytes(&mut client, &dead) <= DEAD_BYTES
    });
    let removed = metric(&api, "countd_dead_letters_removed_total");
    assert!((1..JUNK).contains(&removed), "{removed}");
    let padding = "x".repeat(10_000);
    let later = json!({ "metric": "later", "delta": 1, "more": padding });
    append(
        &mut client,
        &log,
        "e",
        &with(on_note(1, 9), later).to_string(),
    );
    wait_until("it is a dead letter", || {
        metric(&api, "countd_events_dead_total") == JUNK + 1
    });
    let dead_letters = list_dead_letters(&store);
    let kept = dead_letters.len() as u64;
    assert!(kept > 1, "{kept}");
    for dead_letter in &dead_letters[..dead_letters.len() - 1] {
        let length = dead_letter["payload"].as_str().map(str::len);
        assert_eq!(
            (length, dead_letter["bytes"].as_u64()),
            (Some(1_000), Some(10_004))
        );
    }
    // A truncated dead letter could look like an event, so it is not retried.
    printed(&run(
        &store.server,
        BOUNDED,
        &["schema", "extend", "v1", "later"],
    ));
    let retried = printed(&run(&store.server, BOUNDED, &["dead", "retry", "--all"]));
    assert_eq!(retried, format!("1 retried, {} left\n", kept - 1));
    wait_until("it counts", || {
        let found = server.api().get("/counter/note/1?metrics=later");
        found.1["counts"]["later"] == 1
    });
}

for_each_store!([module cluster]
    unknown_fields_do_not_reach_the_log
    long_entries_are_read_in_parts_and_trimmed
    dead_letters_are_bounded
);
