//! Memory: of countd under bodies and entries that were made to be expensive, and of Redis after them.

use crate::support::worlds::{World, on_each};
use crate::support::{Api, Countd, Settings, metric, on_note, printed, run, set_schema, with};
use countint_tests::env::deadline;
use countint_tests::{Client, Server, reply, wait_until};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

const MB: usize = 1 << 20;
/// The default of `http.max_body_bytes`.
const BODY: usize = 4 * MB;
/// The default of `http.max_bodies_bytes`, and how many times that countd takes for bodies and items at most: as documented.
const BODIES: usize = 64 * MB;
const MULTIPLE: usize = 4;
/// Bodies at a time.
const CLIENTS: usize = 24;

/// A text of this length: a piece again and again between a start and an end.
fn filled(start: &str, piece: &str, end: &str, length: usize) -> String {
    let room = length - start.len() - end.len();
    format!("{start}{}{end}", piece.repeat(room / piece.len()))
}

/// The same of a JSON array.
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

/// Bodies of 4 MB that are not expensive to send: path, content type, body, statuses of which each answer has one.
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
        ("/events", JSON, array("0", BODY), vec![413]),
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

/// A request as it goes. Its answer may take long: here it is not about time.
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
    // One that is refused need not be taken as a whole.
    let _ = stream.write_all(body.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    (status.unwrap_or(0), answer)
}

/// Sends a body from many clients at a time. Each gets one of these answers, or is told to come again.
fn send(countd: &Countd, path: &str, of: &str, body: &str, statuses: &[u16]) {
    let port = countd.port();
    let one = || {
        let (status, text) = post(port, path, of, body);
        // Of a connection that was closed early even the answer may be lost.
        let is_busy = status == 0 || status == 503 && text.contains("\"busy\"");
        assert!(
            statuses.contains(&status) || is_busy,
            "{path}: {status}: {text:.300}"
        );
        u32::from(!is_busy)
    };
    let answered: u32 = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(one)).collect();
        let answers = clients
            .into_iter()
            .map(|client| client.join().expect("it ends"));
        answers.sum()
    });
    assert!(answered > 0, "{path}: all are refused");
}

#[test]
fn memory_under_many_bodies_is_bounded() {
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
        let took = countd.memory("VmHWM").saturating_sub(before);
        let start: String = body.chars().take(30).collect();
        eprintln!("{} MB under {CLIENTS} of {path} {start:?}", took / MB);
        assert!(took <= MULTIPLE * BODIES, "{path} {start:?}: {took} bytes");
    }
}
