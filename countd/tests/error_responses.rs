//! Error responses: each is documented, has a body, and leaves the connection usable.

use crate::support::{Countd, Settings, set_schema};
use countint_tests::Server;
use countint_tests::env::deadline;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const CONFIG: &str = r#"
[auth]
tokens = [{ token = "writer-writer-writer", rights = ["read", "write"] }]
[http]
timeout_ms = 500
max_body_bytes = 200000
"#;

fn start(server: &Server) -> Countd {
    set_schema(server, CONFIG);
    let command = "serve";
    let config = CONFIG;
    Countd::with(server, &Settings { command, config })
}

/// A connection on which bytes are written as given.
struct Connection(BufReader<TcpStream>);

impl Connection {
    fn new(countd: &Countd) -> Connection {
        let stream = TcpStream::connect(("127.0.0.1", countd.port())).expect("a connection");
        let limit = Some(deadline(60));
        stream.set_read_timeout(limit).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Connection(BufReader::new(stream))
    }

    fn send(&mut self, text: &str) {
        let sent = self.0.get_mut().write_all(text.as_bytes());
        sent.expect("the connection is open");
    }

    /// The status, the headers and the JSON of the next response.
    fn read_response(&mut self) -> (u16, String, Json) {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = self.0.read_line(&mut head).expect("a response");
            assert!(read > 0, "the connection ended: {head}");
        }
        let head = head.to_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length = length.map_or(0, |length| length.parse().expect("a length"));
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).expect("a body");
        let status = head.split(' ').nth(1).expect("a status");
        let json = serde_json::from_slice(&body).unwrap_or(Json::Null);
        (status.parse().expect("a number"), head, json)
    }
}

fn head(path: &str, length: usize, token: bool) -> String {
    let token = match token {
        true => "authorization: Bearer writer-writer-writer\r\n",
        false => "",
    };
    format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\n{token}content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
}

/// Requests that are refused because of their headers. Their bodies follow, and then another request on the same connection.
#[test]
fn a_connection_stays_usable_when_a_request_is_refused_before_its_body() {
    let server = Server::start();
    let countd = start(&server);
    let long = "x".repeat(20_000);
    for (path, token, status) in [
        ("/action/like", false, 401),
        ("/action/%FF", true, 400),
        ("/metrics", true, 405),
        ("/nothing", true, 404),
        ("/healthz", false, 405),
    ] {
        let (mut connection, mut done) = (Connection::new(&countd), 0);
        while done < 3 {
            connection.send(&head(path, long.len(), token));
            let begun = Instant::now();
            std::thread::sleep(Duration::from_millis(30));
            // countd waits for the body for a second. A machine that stalls for that long proves nothing.
            if begun.elapsed() > Duration::from_millis(400) {
                connection = Connection::new(&countd);
                continue;
            }
            connection.send(&long[..10_000]);
            std::thread::sleep(Duration::from_millis(10));
            connection.send(&long[10_000..]);
            done += 1;
            let (found, headers, json) = connection.read_response();
            assert_eq!(found, status, "{path}: {json}");
            assert!(json["code"].is_string(), "{path}: {json}");
            assert!(!headers.contains("connection: close"), "{path}: {headers}");
        }
    }
}

#[test]
fn a_large_unread_body_closes_the_connection() {
    let server = Server::start();
    let countd = start(&server);
    let mut connection = Connection::new(&countd);
    connection.send(&head("/action/like", 150_000, false));
    connection.send(&"x".repeat(70_000));
    let (status, headers, json) = connection.read_response();
    assert_eq!((status, &json["code"]), (401, &json!("unauthorized")));
    assert!(headers.contains("connection: close"), "{headers}");
    // With `Expect: 100-continue` the client need not send the body.
    let mut connection = Connection::new(&countd);
    let request =
        head("/action/like", 1_000, false).replacen("host:", "expect: 100-continue\r\nhost:", 1);
    connection.send(&request);
    let (status, headers, _) = connection.read_response();
    assert_eq!(status, 401);
    assert!(headers.contains("connection: close"), "{headers}");
}

#[test]
fn a_slow_body_gets_503_with_a_reason() {
    let server = Server::start();
    let countd = start(&server);
    let mut connection = Connection::new(&countd);
    connection.send(&head("/action/like", 1_000, true));
    let (status, headers, json) = connection.read_response();
    assert_eq!((status, &json["code"]), (503, &json!("timeout")), "{json}");
    assert!(
        headers.contains("content-type: application/problem+json"),
        "{headers}"
    );
    assert!(headers.contains("retry-after: 1"), "{headers}");
}

#[test]
fn each_route_documents_every_response() {
    let server = Server::start();
    let countd = start(&server);
    let (_, document) = countd.api().get("/openapi.json");
    let paths = document["paths"].as_object().expect("paths");
    for (path, operations) in paths {
        for (method, operation) in operations.as_object().expect("operations") {
            let replies = operation["responses"].as_object().expect("replies");
            let found: BTreeSet<&str> = replies.keys().map(String::as_str).collect();
            let handled: &[&str] = &["400", "404", "422", "500"];
            let success: &[&str] = match method.as_str() {
                "delete" => &["202"],
                _ => &["200"],
            };
            let expected: Vec<&[&str]> = match path.as_str() {
                "/healthz" | "/openapi.json" => vec![&["200"]],
                "/readyz" => vec![&["200", "500"]],
                "/metrics" => vec![&["200", "401", "403"]],
                _ => vec![success, handled, &["401", "403", "429"]],
            };
            let mut expected: BTreeSet<&str> = expected
                .concat()
                .into_iter()
                .chain(["405", "413", "503"])
                .collect();
            if operation.get("requestBody").is_some() {
                expected.insert("415");
            }
            assert_eq!(found, expected, "{method} {path}");
            for (status, reply) in replies
                .iter()
                .filter(|(status, _)| !status.starts_with('2'))
            {
                let schema = &reply["content"]["application/problem+json"]["schema"];
                assert_eq!(
                    schema["$ref"], "#/components/schemas/ProblemDetails",
                    "{method} {path} {status}"
                );
            }
        }
    }
    let who = &document["paths"]["/who/{metric}/{etype}/{eid}"]["get"]["parameters"];
    let cursor = who
        .as_array()
        .expect("parameters")
        .iter()
        .find(|one| one["name"] == "cursor");
    let types = &cursor.expect("a cursor")["schema"]["type"];
    assert!(types == "string" || types[0] == "string", "{types}");
}
