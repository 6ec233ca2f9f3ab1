//! Clients that are slow, too loud or out of their minds are cut off, and nobody else notices.

use crate::support::{Countd, Settings, set_schema};
use countint_tests::Server;
use countint_tests::env::deadline;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

const CONFIG: &str = "[http]\nheader_timeout_ms = 500\ntimeout_ms = 700\nmax_body_bytes = 1000\n";

fn connect(countd: &Countd) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", countd.port())).expect("a connection");
    stream
        .set_read_timeout(Some(deadline(30)))
        .expect("a timeout");
    stream
}

/// Sends what it can.
fn send(countd: &Countd, text: &str) -> TcpStream {
    let mut stream = connect(countd);
    stream.write_all(text.as_bytes()).expect("it is taken");
    stream
}

/// What comes until the other side closes the connection. It must.
#[track_caller]
fn rest(mut stream: TcpStream) -> String {
    let mut response = Vec::new();
    match stream.read_to_end(&mut response) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the connection stays open: {error}"),
    }
    String::from_utf8(response).expect("a text")
}

/// Sends a piece again and again until the connection is closed. It must be.
#[track_caller]
fn trickle(mut stream: TcpStream, piece: &str) -> String {
    let since = Instant::now();
    while stream.write_all(piece.as_bytes()).is_ok() {
        assert!(since.elapsed() < deadline(30), "it may go on for ever");
        thread::sleep(Duration::from_millis(20));
    }
    rest(stream)
}

fn status(response: &str) -> &str {
    response.split(' ').nth(1).unwrap_or("")
}

#[test]
fn slow_headers_end_the_connection() {
    let server = Server::start();
    let countd = Countd::start(&server, CONFIG);
    let slow: Vec<TcpStream> = (0..100)
        .map(|_| send(&countd, "GET /healthz HTTP/1.1\r\nHost: x\r\n"))
        .collect();
    assert_eq!(
        countd.api().get("/healthz").0,
        200,
        "others are served meanwhile"
    );
    trickle(
        send(&countd, "GET /healthz HTTP/1.1\r\nHost: x\r\n"),
        "X-More: 1\r\n",
    );
    for stream in slow {
        assert!(!rest(stream).contains("200 OK"));
    }
    // One that says nothing at all, and one that is idle after an answer.
    rest(connect(&countd));
    let idle = rest(send(&countd, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"));
    assert!(idle.starts_with("HTTP/1.1 200 OK"), "{idle}");
}

#[test]
fn who_does_not_read_answers_loses_his_place() {
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
    // Far more than the buffers between the two hold, and none of it is read.
    let silent = send(
        &countd,
        &"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1_000),
    );
    // There is one place, so this one waits until the other is gone.
    assert_eq!(countd.api().get("/healthz").0, 200);
    drop(silent);
}

#[test]
fn slow_bodies_end_with_408() {
    let server = Server::start();
    let countd = Countd::start(&server, CONFIG);
    for path in ["/action/like", "/actions", "/events", "/status/batch"] {
        let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n{{");
        let response = rest(send(&countd, &head));
        assert_eq!(status(&response), "408", "{path}: {response}");
        let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
        let response = trickle(send(&countd, &head), "1\r\n \r\n");
        assert!(
            ["408", ""].contains(&status(&response)),
            "{path}: {response}"
        );
    }
    assert_eq!(countd.api().get("/healthz").0, 200);
}

#[test]
fn what_is_too_large_is_refused_before_it_is_read() {
    let server = Server::start();
    let countd = Countd::start(&server, CONFIG);
    for path in ["/action/like", "/actions", "/events", "/counter/batch"] {
        let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n");
        let response = rest(send(&countd, &head));
        assert_eq!(status(&response), "413", "{path}: {response}");
        assert!(response.contains("too_large"), "{path}: {response}");
        let chunk = format!("{:x}\r\n{}\r\n", 600, "x".repeat(600));
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}{chunk}"
        );
        let response = rest(send(&countd, &head));
        assert_eq!(status(&response), "413", "{path}: {response}");
    }
    let headers = "X-More: 0123456789\r\n".repeat(2_000);
    let response = rest(send(
        &countd,
        &format!("GET /healthz HTTP/1.1\r\n{headers}\r\n"),
    ));
    assert_eq!(status(&response), "431", "{response}");
    let path = "x".repeat(100_000);
    let response = rest(send(
        &countd,
        &format!("GET /{path} HTTP/1.1\r\nHost: x\r\n\r\n"),
    ));
    assert!(["404", "414"].contains(&status(&response)), "{response}");
}

#[test]
fn garbage_ends_the_connection_but_not_what_came_before_it() {
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
        let response = rest(send(&countd, &text));
        let responses: Vec<&str> = response
            .split("HTTP/1.1 ")
            .skip(1)
            .map(|one| &one[..3])
            .collect();
        assert!(
            ["200", "404", "400"] == *responses || ["200", "404"] == *responses,
            "{garbage:?}: {response}"
        );
        let response = rest(send(&countd, garbage));
        assert!(
            ["400", ""].contains(&status(&response)),
            "{garbage:?}: {response}"
        );
    }
    // Two lengths: what the second request is would depend on who reads it.
    let smuggled =
        "POST /actions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 0\r\n\r\n";
    assert!(["400", ""].contains(&status(&rest(send(&countd, smuggled)))));
    assert_eq!(countd.api().get("/readyz").0, 200);
}

#[test]
fn open_connections_do_not_hold_up_the_end() {
    let server = Server::start();
    let mut countd = Countd::start(&server, "");
    let open = [
        connect(&countd),
        send(&countd, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"),
    ];
    countd.stop();
    drop(open);
}
