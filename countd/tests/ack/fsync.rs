//! `redis.ack = "fsync"`: servers that can, and servers that cannot.

use super::{calls, config, confirmed};
use crate::support::{Countd, on_note, run, set_schema};
use countint_tests::Server;

/// Whether the server has `WAITAOF`.
fn has_waitaof(server: &Server) -> bool {
    let version = server.version();
    version.valkey || version.number >= (7, 2)
}

fn refusal(server: &Server) -> String {
    let refused = run(server, &config("fsync", 60_000), &["check"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(error.contains("redis.ack is fsync, but"), "{error}");
    error.into_owned()
}

#[test]
fn servers_that_cannot_sync_on_request_are_refused() {
    let server = Server::start();
    set_schema(&server, "");
    let error = refusal(&server);
    match has_waitaof(&server) {
        true => assert!(error.contains("appendonly yes"), "{error}"),
        false => assert!(error.contains("7.2"), "{error}"),
    }
}

#[test]
fn writes_are_confirmed_when_they_are_on_the_disk() {
    let server = Server::builder()
        .append_only(true)
        .config("appendfsync everysec")
        .start();
    let config = &config("fsync", 60_000);
    if !has_waitaof(&server) {
        set_schema(&server, "");
        assert!(refusal(&server).contains("7.2"));
        return;
    }
    let countd = Countd::start(&server, config);
    let api = countd.api();
    let mut client = server.client();
    let before = calls(&mut client, "waitaof");
    for uid in [7, 7] {
        confirmed(|| api.post("/action/like", &on_note(1, uid)));
        assert_eq!(
            client.info_number("persistence", "aof_pending_bio_fsync"),
            0
        );
    }
    assert!(calls(&mut client, "waitaof") >= before + 2);
    assert_eq!(api.counts(1)["like"], 1);
}
