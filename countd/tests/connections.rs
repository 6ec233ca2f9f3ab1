//! Connections that are closed on either side: no request is lost, and every response has a body.

use crate::support::workload::Random;
use crate::support::{Api, Countd, on_note, wait_until_drained, with};
use countint_tests::env::deadline;
use countint_tests::{Server, wait_until};
use serde_json::{Value as Json, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// A response as received.
#[derive(Debug)]
struct Response {
    status: u16,
    /// In lower case, without `\r\n`.
    headers: Vec<String>,
    body: String,
}

impl Response {
    fn header(&self, name: &str) -> Option<&str> {
        let value = |line: &'_ String| {
            line.split_once(": ")
                .filter(|(found, _)| *found == name)
                .is_some()
        };
        let line = self.headers.iter().find(|line| value(line))?;
        line.split_once(": ").map(|(_, value)| value)
    }

    fn closes(&self) -> bool {
        self.header("connection") == Some("close")
    }

    fn json(&self) -> Json {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A keep-alive connection.
struct Connection(BufReader<TcpStream>);

impl Connection {
    fn open(countd: &Countd) -> Connection {
        let stream = TcpStream::connect(("127.0.0.1", countd.port())).expect("a connection");
        stream
            .set_read_timeout(Some(deadline(60)))
            .expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Connection(BufReader::new(stream))
    }

    fn send(&mut self, text: &str) -> Result<(), String> {
        let sent = self.0.get_mut().write_all(text.as_bytes());
        sent.map_err(|error| error.to_string())
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(0) => Err("the connection was closed".to_owned()),
            Ok(_) => Ok(line.trim_end().to_ascii_lowercase()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn read_response(&mut self) -> Result<Response, String> {
        let first = self.line()?;
        let status = first
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let mut headers = Vec::new();
        loop {
            match self.line()? {
                line if line.is_empty() => break,
                line => headers.push(line),
            }
        }
        let mut response = Response {
            status: status.ok_or(first)?,
            headers,
            body: String::new(),
        };
        let length = response
            .header("content-length")
            .and_then(|length| length.parse().ok());
        let mut body = vec![0; length.ok_or("no length")?];
        self.0
            .read_exact(&mut body)
            .map_err(|error| error.to_string())?;
        response.body = String::from_utf8(body).map_err(|error| error.to_string())?;
        Ok(response)
    }

    fn request(&mut self, text: &str) -> Result<Response, String> {
        self.send(text)?;
        self.read_response()
    }

    /// Asserts that the server closes the connection without another response.
    #[track_caller]
    fn assert_closed(&mut self) {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).expect("it is closed");
        assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")
}

fn post(path: &str, body: &Json) -> String {
    let body = body.to_string();
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// Sends a request, and returns the status and the body of the response.
type ReadRequest<'a> = dyn Fn(&Api) -> (u16, Json) + 'a;

#[test]
fn reads_succeed_after_redis_closed_its_connections() {
    let server = Server::start();
    let countd = Countd::start(&server, "");
    let api = countd.api();
    api.act("like", on_note(1, 42));
    wait_until_drained(&server, 1024);
    let items = json!([{ "etype": "note", "eid": 1 }]);
    let reads: [&ReadRequest; 8] = [
        &|api| api.get("/counter/note/1"),
        &|api| api.get("/status/note/1?uid=42&metrics=like"),
        &|api| api.get("/who/like/note/1"),
        &|api| api.get("/relation/counter?uid=42"),
        &|api| api.get("/readyz"),
        &|api| api.post("/counter/batch", &json!({ "items": items })),
        &|api| {
            api.post(
                "/status/batch",
                &json!({ "uid": 42, "items": items, "metrics": ["like"] }),
            )
        },
        &|api| api.post("/relation/counter/batch", &json!({ "uids": [42] })),
    ];
    let mut client = server.client();
    for round in 0..5 {
        for (number, read) in reads.iter().enumerate() {
            client.ok("CLIENT KILL TYPE normal");
            // In every other round countd has time to detect the closed connections.
            if round % 2 == 1 {
                thread::sleep(Duration::from_millis(20));
            }
            let (status, response) = read(&api);
            assert_eq!(status, 200, "{number}: {response}");
        }
    }
    // The server closes idle connections by itself.
    client.ok("CONFIG SET timeout 1");
    wait_until("idle connections are closed", || {
        !client
            .run("CLIENT LIST TYPE normal")
            .contains("cmd=cint.mread")
    });
    assert_eq!(api.get("/counter/note/1").0, 200);
}

#[test]
fn shutdown_interrupts_no_request() {
    const CLIENTS: u64 = 32;
    const ROUNDS: u64 = 3;
    let server = Server::start();
    let mut countd = Countd::start(&server, "[limits]\nuser = { per_second = 0, burst = 1 }\n");
    let (answered, closed) = (AtomicU64::new(0), AtomicU64::new(0));
    for round in 0..ROUNDS {
        let before = answered.load(Relaxed);
        let mut clients: Vec<Connection> =
            (0..CLIENTS).map(|_| Connection::open(&countd)).collect();
        thread::scope(|scope| {
            for (number, client) in clients.iter_mut().enumerate() {
                let (answered, closed) = (&answered, &closed);
                scope.spawn(move || {
                    let mut random = Random(round * CLIENTS + number as u64);
                    loop {
                        let action =
                            with(on_note(random.below(10), 42), json!({ "metric": "read" }));
                        let request = match random.below(3) {
                            0 => get("/healthz"),
                            1 => get("/counter/note/1"),
                            _ => post("/actions", &action),
                        };
                        let response = client.request(&request).expect("a response");
                        assert_eq!(response.status, 200, "{response:?}");
                        answered.fetch_add(1, Relaxed);
                        if response.closes() {
                            closed.fetch_add(1, Relaxed);
                            return client.assert_closed();
                        }
                        thread::sleep(Duration::from_micros(random.below(3_000)));
                    }
                });
            }
            wait_until("all clients send requests", || {
                answered.load(Relaxed) > before + 20 * CLIENTS
            });
            countd.terminate();
        });
        countd.wait_for_end();
        assert_eq!(
            closed.load(Relaxed),
            (round + 1) * CLIENTS,
            "each response said that the connection closes"
        );
        countd.launch();
    }
    eprintln!("{} requests, none interrupted", answered.load(Relaxed));
}

#[test]
fn a_request_in_flight_at_shutdown_gets_a_response() {
    let server = Server::start();
    let mut countd = Countd::start(&server, "");
    let (mut idle, mut half, mut fresh) = (
        Connection::open(&countd),
        Connection::open(&countd),
        Connection::open(&countd),
    );
    for connection in [&mut idle, &mut half] {
        let response = connection.request(&get("/healthz")).expect("a response");
        assert!(response.status == 200 && !response.closes(), "{response:?}");
    }
    let action = post("/action/like", &on_note(1, 42));
    let (start, end) = action.split_at(20);
    half.send(start).expect("written");
    countd.terminate();
    wait_until("it stops", || countd.log().contains("stopping"));
    half.send(end).expect("written");
    for connection in [&mut idle, &mut fresh] {
        connection.send(&get("/counter/note/1")).expect("written");
    }
    for connection in [&mut half, &mut idle, &mut fresh] {
        let response = connection.read_response().expect("a response");
        assert!(response.status == 200 && response.closes(), "{response:?}");
        connection.assert_closed();
    }
    countd.wait_for_end();
}

#[test]
fn invalid_http_is_refused_with_a_body() {
    let server = Server::start();
    let countd = Countd::start(&server, "");
    let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(70_000));
    let many = format!(
        "GET /healthz HTTP/1.1\r\n{}\r\n",
        "x-more: 1\r\n".repeat(200)
    );
    let wide = format!(
        "GET /healthz HTTP/1.1\r\nx-more: {}\r\n\r\n",
        "x".repeat(5_000_000)
    );
    for (text, status, code) in [
        ("nonsense\r\n\r\n", 400, "malformed"),
        ("GET / HTTP/9.9\r\n\r\n", 400, "malformed"),
        ("GET /healthz HTTP/1.1\r\nhost x\r\n\r\n", 400, "malformed"),
        (
            "POST /actions HTTP/1.1\r\nhost: x\r\ncontent-length: x\r\n\r\n",
            400,
            "malformed",
        ),
        (&long, 414, "uri_too_long"),
        (&many, 431, "headers_too_large"),
        (&wide, 431, "headers_too_large"),
    ] {
        // As the first request, after a response, and pipelined after another request.
        for before in 0..3 {
            let mut connection = Connection::open(&countd);
            let good = get("/healthz");
            let earlier = match before {
                0 => Vec::new(),
                1 => vec![connection.request(&good)],
                _ => {
                    connection.send(&good.repeat(2)).expect("written");
                    vec![connection.read_response(), connection.read_response()]
                }
            };
            for response in earlier {
                assert_eq!(response.expect("a response").status, 200);
            }
            // The server need not read all of it.
            let _ = connection.send(text);
            let response = connection.read_response().expect("a response");
            assert_eq!(response.status, status, "{response:?}");
            assert_eq!(response.json()["code"], code, "{response:?}");
            assert!(response.json()["detail"].is_string(), "{response:?}");
            assert_eq!(
                response.header("content-type"),
                Some("application/problem+json")
            );
            assert!(response.closes(), "{response:?}");
        }
    }
    // Valid requests before it in the same segment get their responses.
    let mut connection = Connection::open(&countd);
    connection
        .send(&(get("/healthz") + &get("/nowhere") + "nonsense\r\n\r\n"))
        .expect("written");
    let statuses = [200, 404, 400].map(|_| connection.read_response().expect("a response").status);
    assert_eq!(statuses, [200, 404, 400]);
    connection.assert_closed();
    // The preface of HTTP/2: a client of HTTP/2 would not understand a response of HTTP/1.1.
    let mut connection = Connection::open(&countd);
    connection
        .send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .expect("written");
    connection.assert_closed();
    let api = countd.api();
    let (_, metrics) = api.get("/metrics");
    let line = "countd_http_requests_total{route=\"none\",method=\"other\",status=\"414\"} 3";
    assert!(
        metrics.as_str().is_some_and(|text| text.contains(line)),
        "{metrics}"
    );
}

#[test]
fn each_path_lists_its_methods_in_allow() {
    let server = Server::start();
    let countd = Countd::start(&server, "");
    let (_, document) = countd.api().get("/openapi.json");
    let mut connection = Connection::open(&countd);
    for (path, operations) in document["paths"].as_object().expect("paths") {
        let operations = operations.as_object().expect("operations");
        for (method, operation) in operations {
            let described = &operation["responses"]["405"];
            assert!(
                described["headers"]["Allow"].is_object(),
                "{method} {path}: {described}"
            );
        }
        for root in ["", "/api/v1"] {
            for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
                if operations.contains_key(&method.to_lowercase()) {
                    continue;
                }
                let path = format!("{root}{}", path.replace(['{', '}'], ""));
                let request =
                    format!("{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n");
                let response = connection.request(&request).expect("a response");
                assert_eq!(response.status, 405, "{method} {path}: {response:?}");
                assert_eq!(response.json()["code"], "no_method", "{method} {path}");
                let allowed = response.header("allow").unwrap_or_default();
                for of_path in operations.keys() {
                    assert!(allowed.contains(of_path), "{method} {path}: {allowed}");
                }
                assert!(
                    !allowed.contains(&method.to_lowercase()),
                    "{path}: {allowed}"
                );
            }
        }
    }
}
