//! Connections to Redis over TLS and over a Unix socket.

use crate::support::certificates::{Authority, Files};
use crate::support::stores::wait_until_up;
use crate::support::{
    Countd, Settings, on_note, run_with_url, set_schema, wait_until_drained, with,
};
use countint_tests::env::{TempDir, free_port};
use countint_tests::{Builder, Server};
use serde_json::json;
use std::path::Path;
use std::process::Output;

const LOG: &str = "[log]\npartitions = 16\n";

/// A server with TLS on a second port. `None` if it was built without TLS, which is possible for a server that the tests are told to use.
pub struct TlsServer {
    pub server: Server,
    /// The port with TLS.
    pub port: u16,
    url: String,
}

/// Starts a server with a certificate. `clients` says whether it requires certificates of clients.
pub fn start(builder: Builder, ca: &Path, files: &Files, clients: &str) -> Option<TlsServer> {
    let port = free_port();
    let builder = builder
        .config(&format!("tls-port {port}"))
        .config(&format!("tls-cert-file {}", files.cert.display()))
        .config(&format!("tls-key-file {}", files.key.display()))
        .config(&format!("tls-ca-cert-file {}", ca.display()))
        .config(&format!("tls-auth-clients {clients}"));
    match builder.try_start() {
        Ok(server) => Some(TlsServer {
            server,
            port,
            url: format!("rediss://127.0.0.1:{port}/"),
        }),
        Err(log) if std::env::var_os("COUNTINT_SERVER").is_some() => {
            eprintln!("the server has no TLS:\n{log}");
            None
        }
        Err(log) => panic!("the server did not start:\n{log}"),
    }
}

/// The settings of connections.
fn tls(ca: &Path, client: Option<&Files>) -> String {
    connections(ca, client) + LOG
}

/// The section of the configuration with the certificates.
pub fn connections(ca: &Path, client: Option<&Files>) -> String {
    let mut text = format!("[redis.tls]\nca_file = \"{}\"\n", ca.display());
    if let Some(files) = client {
        let (cert, key) = (files.cert.display(), files.key.display());
        text += &format!("cert_file = \"{cert}\"\nkey_file = \"{key}\"\n");
    }
    text
}

fn environment(url: &str) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    vec![("COUNTD_REDIS__URL".into(), url.into())]
}

fn check(url: &str, config: &str) -> Output {
    run_with_url(url.to_owned(), config, &["check"])
}

#[track_caller]
fn assert_refused(output: &Output, problem: &str) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains(problem),
        "{problem}: {errors}"
    );
}

/// Counts actions of all kinds: events are read on a connection of their own.
fn assert_counts(server: &Server, url: &str, config: &str) {
    set_schema(server, LOG);
    let command = "all";
    let settings = Settings { command, config };
    let countd = Countd::with_environment(server, &settings, environment(url));
    let api = countd.api();
    api.act("like", with(on_note(1, 42), json!({ "author": 7 })));
    api.act("read", on_note(1, 42));
    wait_until_drained(server, 16);
    let counts = api.counts(1);
    assert_eq!((&counts["like"], &counts["read"]), (&json!(1), &json!(1)));
    assert_eq!(api.user(7)["likesReceived"], 1);
    assert_eq!(api.get("/readyz").0, 200);
}

#[test]
fn events_count_over_tls() {
    let (dir, authority) = (TempDir::new(), Authority::new());
    let ca = authority.write(&dir.path().join("ca.crt"));
    let files = authority.issue(dir.path(), "127.0.0.1");
    let Some(tls_server) = start(Server::builder(), &ca, &files, "no") else {
        return;
    };
    assert_counts(&tls_server.server, &tls_server.url, &tls(&ca, None));
    let Some(other) = start(Server::builder(), &ca, &files, "no") else {
        return;
    };
    let prefilter = format!("{}[prefilter]\nenabled = true\n", tls(&ca, None));
    let acked = "[redis]\nread_from = \"replica\"\nack = \"memory\"\n".to_owned() + &prefilter;
    assert_counts(&other.server, &other.url, &acked);
}

#[test]
fn events_count_in_a_cluster_over_tls() {
    let (dir, authority) = (TempDir::new(), Authority::new());
    let ca = authority.write(&dir.path().join("ca.crt"));
    let files = authority.issue(dir.path(), "127.0.0.1");
    // With tls-cluster, nodes tell clients over TLS the ports of TLS.
    let cluster = Server::builder()
        .config("cluster-enabled yes")
        .config("tls-cluster yes");
    let Some(TlsServer { server, url, .. }) = start(cluster, &ca, &files, "no") else {
        return;
    };
    server.client().ok("CLUSTER ADDSLOTSRANGE 0 16383");
    wait_until_up(std::slice::from_ref(&server));
    assert_counts(&server, &url, &tls(&ca, None));
}

#[test]
fn a_certificate_that_is_not_valid_is_refused() {
    let (dir, authority) = (TempDir::new(), Authority::new());
    let ca = authority.write(&dir.path().join("ca.crt"));
    let files = authority.issue(dir.path(), "127.0.0.1");
    let other = Authority::new().write(&dir.path().join("other.crt"));
    let Some(valid) = start(Server::builder(), &ca, &files, "no") else {
        return;
    };
    let output = check(&valid.url, &tls(&ca, None));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!errors.contains("cannot connect"), "{errors}");
    assert_refused(&check(&valid.url, &tls(&other, None)), "UnknownIssuer");
    assert_refused(&check(&valid.url, LOG), "UnknownIssuer");
    let missing = dir.path().join("missing.crt");
    assert_refused(
        &check(&valid.url, &tls(&missing, None)),
        "redis.tls.ca_file",
    );
    assert_refused(
        &check(&valid.url, &tls(&files.key, None)),
        "redis.tls.ca_file",
    );
    let plain = valid.url.replace("rediss", "redis");
    assert_refused(
        &check(&plain, &tls(&ca, None)),
        "redis.tls: has an effect only if",
    );

    let other = authority.issue(dir.path(), "redis.invalid");
    let Some(other) = start(Server::builder(), &ca, &other, "no") else {
        return;
    };
    let output = check(&other.url, &tls(&ca, None));
    assert_refused(&output, "not valid for name");

    let expired = authority.issue_until(dir.path(), "127.0.0.1", 2010);
    let Some(expired) = start(Server::builder(), &ca, &expired, "no") else {
        return;
    };
    let output = check(&expired.url, &tls(&ca, None));
    assert_refused(&output, "expired");
}

#[test]
fn a_client_certificate_is_sent_to_servers_that_require_one() {
    let (dir, authority) = (TempDir::new(), Authority::new());
    let ca = authority.write(&dir.path().join("ca.crt"));
    let files = authority.issue(dir.path(), "127.0.0.1");
    let own = authority.issue(dir.path(), "countd");
    let Some(TlsServer { server, url, .. }) = start(Server::builder(), &ca, &files, "yes") else {
        return;
    };
    assert_refused(&check(&url, &tls(&ca, None)), "cannot connect to Redis");
    assert_counts(&server, &url, &tls(&ca, Some(&own)));
}

#[test]
fn events_count_over_a_unix_socket() {
    let dir = TempDir::new();
    let socket = dir.path().join("redis.sock");
    let server = Server::builder()
        .config(&format!("unixsocket {}", socket.display()))
        .start();
    let users = "ACL SETUSER countd on >secret ~* &* +@all";
    server.client().ok(users);
    let url = format!("unix://{}?user=countd&pass=secret", socket.display());
    assert_counts(&server, &url, LOG);
}
