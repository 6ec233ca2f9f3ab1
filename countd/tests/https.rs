//! TLS on the listener of countd.

use crate::support::certificates::Authority;
use crate::support::{Countd, run};
use countint_tests::env::TempDir;
use countint_tests::{Server, wait_until};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

fn config(dir: &TempDir) -> String {
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (cert, key) = (file("127.0.0.1.crt"), file("127.0.0.1.key"));
    format!(
        "[http]\nheader_timeout_ms = 500\n[http.tls]\ncert_file = \"{cert}\"\nkey_file = \"{key}\"\n"
    )
}

#[test]
fn requests_are_served_over_tls_and_renewed_certificates_are_used() {
    let (server, dir) = (Server::start(), TempDir::new());
    let (first, second) = (Authority::new(), Authority::new());
    first.issue(dir.path(), "127.0.0.1");
    let mut countd = Countd::start(&server, &config(&dir));
    let port = countd.port();
    let response = first.get(port, "/counter/note/1").expect("a response");
    assert!(response.starts_with("HTTP/1.1 200 OK"), "{response}");
    let error = second.get(port, "/healthz").expect_err("another authority");
    assert!(error.contains("UnknownIssuer"), "{error}");

    // Without TLS there is no response, and a client that sends nothing is disconnected.
    for text in ["GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n", ""] {
        let mut plain = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        plain.write_all(text.as_bytes()).expect("written");
        let mut response = Vec::new();
        // The connection may be reset.
        let _ = plain.read_to_end(&mut response);
        assert!(!response.starts_with(b"HTTP"), "{response:?}");
    }

    second.issue(dir.path(), "127.0.0.1");
    wait_until("the new certificate is used", || {
        second.get(port, "/healthz").is_ok()
    });
    fs::write(dir.path().join("127.0.0.1.key"), "nonsense").expect("written");
    wait_until("the file is refused", || {
        countd.log().contains("the old one stays")
    });
    assert!(second.get(port, "/healthz").is_ok());
    countd.stop();
}

#[test]
fn a_certificate_without_its_key_is_refused() {
    let (server, dir) = (Server::start(), TempDir::new());
    let authority = Authority::new();
    let files = authority.issue(dir.path(), "127.0.0.1");
    let other = authority.issue(dir.path(), "localhost");
    let refused = |problem: &str| {
        let output = run(&server, &config(&dir), &["serve"]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && errors.contains(problem),
            "{errors}"
        );
    };
    fs::copy(&other.key, &files.key).expect("copied");
    refused("http.tls: ");
    fs::write(&files.cert, "").expect("written");
    refused("127.0.0.1.crt: no certificate");
    fs::remove_file(&files.cert).expect("removed");
    refused("127.0.0.1.crt: ");
}
