//! Clients that are slow or send invalid requests are disconnected, and others are not affected.

use crate::support::{Countd, Settings, set_schema};
use countint_tests::Server;
use countint_tests::env::deadline;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

const CONFIG: &str = "[http]\nheader_timeout_ms = 500\nkeep_alive_seconds = 1\ntimeout_ms = 700\nmax_body_bytes = 1000\n";

fn connect(countd: &Countd) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", countd.port())).expect("a connection");
    stream
        .set_read_timeout(Some(deadline(60)))
        .expect("a timeout");
    stream
}

/// Opens a connection and writes a text.
fn send(countd: &Countd, text: &str) -> TcpStream {
    let mut stream = connect(countd);
    stream.write_all(text.as_bytes()).expect("written");
    stream
}

/// Reads until the server closes the connection. Fails if it stays open.
#[track_caller]
fn read_to_end(mut stream: TcpStream) -> String {
    let mut response = Vec::new();
    match stream.read_to_end(&mut response) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the connection stays open: {error}"),
    }
    String::from_utf8(response).expect("a text")
}

/// Writes a piece repeatedly until the server closes the connection. Fails if it stays open.
#[track_caller]
fn trickle(mut stream: TcpStream, piece: &str) -> String {
    let since = Instant::now();
    while stream.write_all(piece.as_bytes()).is_ok() {
        assert!(
            since.elapsed() < deadline(60),
            "the connection is not closed"
        );
        thread::sleep(Duration::from_millis(20));
    }
    read_to_end(stream)
}

fn status(response: &str) -> &str {
    response.split(' ').nth(1).unwrap_or("")
}

#[test]
fn slow_headers_close_the_connection() {
    let server = Server::start();
    let countd = Countd::start(&server, CONFIG);
    let slow: Vec<TcpStream> = (0..100)
        .map(|_| send(&countd, "GET /healthz HTTP/1.1\r\nHost: x\r\n"))
        .collect();
    assert_eq!(
        countd.api().get("/healthz").0,
        200,
        "other clients are served"
    );
    trickle(
        send(&countd, "GET /healthz HTTP/1.1\r\nHost: x\r\n"),
        "X-More: 1\r\n",
    );
    for stream in slow {
        assert!(!read_to_end(stream).contains("200 OK"));
    }
    // A connection without a request, and one that is idle after a response.
    read_to_end(connect(&countd));
    let idle = read_to_end(send(&countd, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"));
    assert!(idle.starts_with("HTTP/1.1 200 OK"), "{idle}");
}

/// The timeout of headers begins with their first byte, not with the end of the last response.
#[test]
fn idle_connections_stay_open_longer_than_headers_may_take() {
    let server = Server::start();
    let config = "[http]\nheader_timeout_ms = 300\nkeep_alive_seconds = 3600\n";
    let countd = Countd::start(&server, config);
    let request = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut stream = connect(&countd);
    let mut response = [0; 1_000];
    for _ in 0..3 {
        stream.write_all(request.as_bytes()).expect("written");
        let count = stream.read(&mut response).expect("a response");
        assert!(response[..count].starts_with(b"HTTP/1.1 200"), "{count}");
        // Longer than the timeout of headers.
        thread::sleep(Duration::from_millis(600));
    }
    // Headers that are not complete close the connection soon.
    stream.write_all(b"GET /healthz HTTP").expect("written");
    assert!(!read_to_end(stream).contains("200 OK"));
}

#[test]
fn a_client_that_does_not_read_responses_is_disconnected() {
    let server = Server::start();
    let config = format!("{CONFIG}max_connections = 1\n");
    set_schema(&server, "");
    let command = "serve";
    let countd = Countd::with(
        &server,
        &Settings {
            command,
            config: &config,
        },
    );
    // The responses exceed all buffers, and none is read.
    let silent = send(
        &countd,
        &"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1_000),
    );
    // max_connections is 1, so this request waits until the other connection is closed.
    assert_eq!(countd.api().get("/healthz").0, 200);
    drop(silent);
}

#[test]
fn slow_bodies_end_with_503() {
    let server = Server::start();
    let countd = Countd::start(&server, CONFIG);
    for path in ["/action/like", "/actions", "/events", "/status/batch"] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{{"
        );
        let response = read_to_end(send(&countd, &head));
        assert_eq!(status(&response), "503", "{path}: {response}");
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        let response = trickle(send(&countd, &head), "1\r\n \r\n");
        assert!(
            ["503", ""].contains(&status(&response)),
            "{path}: {response}"
        );
    }
    assert_eq!(countd.api().get("/healthz").0, 200);
}

#[test]
fn large_bodies_are_refused_before_they_are_read() {
    let server = Server::start();
    let countd = Countd::start(&server, CONFIG);
    for path in ["/action/like", "/actions", "/events", "/counter/batch"] {
        let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n");
        let response = read_to_end(send(&countd, &head));
        assert_eq!(status(&response), "413", "{path}: {response}");
        assert!(response.contains("too_large"), "{path}: {response}");
        let chunk = format!("{:x}\r\n{}\r\n", 600, "x".repeat(600));
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}{chunk}"
        );
        let response = read_to_end(send(&countd, &head));
        assert_eq!(status(&response), "413", "{path}: {response}");
    }
    let headers = "X-More: 0123456789\r\n".repeat(2_000);
    let response = read_to_end(send(
        &countd,
        &format!("GET /healthz HTTP/1.1\r\n{headers}\r\n"),
    ));
    assert_eq!(status(&response), "431", "{response}");
    let path = "x".repeat(100_000);
    let response = read_to_end(send(
        &countd,
        &format!("GET /{path} HTTP/1.1\r\nHost: x\r\n\r\n"),
    ));
    assert!(["404", "414"].contains(&status(&response)), "{response}");
}

#[test]
fn garbage_closes_the_connection_after_earlier_responses() {
    let server = Server::start();
    let countd = Countd::start(&server, CONFIG);
    for garbage in [
        "\u{0}\u{1}\u{2} nonsense\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "*1\r\n$4\r\nPING\r\n",
    ] {
        let text = format!(
            "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n{garbage}"
        );
        let response = read_to_end(send(&countd, &text));
        let responses: Vec<&str> = response
            .split("HTTP/1.1 ")
            .skip(1)
            .map(|one| &one[..3])
            .collect();
        assert!(
            ["200", "404", "400"] == *responses || ["200", "404"] == *responses,
            "{garbage:?}: {response}"
        );
        let response = read_to_end(send(&countd, garbage));
        assert!(
            ["400", ""].contains(&status(&response)),
            "{garbage:?}: {response}"
        );
    }
    // Request smuggling: with two lengths, a proxy could find another start of the next request.
    let smuggled =
        "POST /actions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 0\r\n\r\n";
    assert!(["400", ""].contains(&status(&read_to_end(send(&countd, smuggled)))));
    assert_eq!(countd.api().get("/readyz").0, 200);
}

#[test]
fn open_connections_do_not_delay_shutdown() {
    let server = Server::start();
    let mut countd = Countd::start(&server, "");
    let open = [
        connect(&countd),
        send(&countd, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"),
    ];
    countd.stop();
    drop(open);
}
