//! The snapshots and the append-only file of Redis.

use super::{CONFIG, Recording, of_redis, wait_until_collected};
use crate::support::{Countd, on_note};
use countint_tests::{Server, wait_until};
use std::fs;
use std::process::Command;

#[test]
fn failed_snapshots_and_rewrites_are_noticed() {
    let server = Server::builder().append_only(true).start();
    let countd = Countd::start(&server, CONFIG);
    wait_until_collected(&countd);
    let mut recording = Recording::default();
    recording.scrape(&[("countd", &countd)]);
    // The open file is written further; no other one can be created.
    fs::remove_dir_all(server.dir()).expect("removed");
    let mut client = server.client();
    client.run("BGSAVE");
    wait_until("the snapshot has failed", || {
        of_redis(&countd, &server, "rdb_save_ok") == 0
    });
    wait_until("the rewrite has failed", || {
        client.run("BGREWRITEAOF");
        of_redis(&countd, &server, "aof_rewrite_ok") == 0
    });
    recording.scrape(&[("countd", &countd)]);
    recording.assert_fires(
        &["CountdRedisSaveFailed", "CountdRedisAofRewriteFailed"],
        10,
    );
    // The server ends into this directory.
    fs::create_dir_all(server.dir()).expect("created");
}

#[test]
fn many_rewrites_are_noticed() {
    let server = Server::builder().append_only(true).start();
    let countd = Countd::start(&server, CONFIG);
    wait_until_collected(&countd);
    let mut recording = Recording::default();
    recording.scrape(&[("countd", &countd)]);
    let rewrites = || of_redis(&countd, &server, "aof_rewrites_total");
    let before = rewrites();
    wait_until("the file was rewritten often", || {
        server.rewrite_aof();
        rewrites() > before + 15
    });
    recording.scrape(&[("countd", &countd)]);
    recording.assert_fires(&["CountdRedisAofRewritesOften"], 10);
}

#[test]
fn redis_without_an_append_only_file_is_noticed() {
    let server = Server::builder().append_only(true).start();
    let countd = Countd::start(&server, CONFIG);
    wait_until_collected(&countd);
    let mut recording = Recording::default();
    recording.scrape(&[("countd", &countd)]);
    server.client().ok("CONFIG SET appendonly no");
    wait_until("it is collected", || {
        of_redis(&countd, &server, "aof_enabled") == 0
    });
    recording.scrape(&[("countd", &countd)]);
    recording.assert_fires(&["CountdRedisNotPersistent"], 15);
}

/// A limit of the size of files stands for a full disk. A server that does not ignore the signal of the limit ends.
#[test]
fn an_append_only_file_that_cannot_be_written_is_noticed() {
    let server = Server::builder()
        .append_only(true)
        .ignore_file_size_signal()
        .start();
    let countd = Countd::start(&server, CONFIG);
    let api = countd.api();
    api.act("like", on_note(1, 1));
    wait_until_collected(&countd);
    let mut recording = Recording::default();
    recording.scrape(&[("countd", &countd)]);
    let limited = Command::new("prlimit")
        .args(["--fsize=1:1", "--pid", &server.pid().to_string()])
        .status();
    assert!(
        limited.is_ok_and(|status| status.success()),
        "prlimit of util-linux"
    );
    wait_until("a write has failed", || {
        // It may be answered before the file is written.
        api.post("/action/like", &on_note(1, 2));
        of_redis(&countd, &server, "aof_write_ok") == 0
    });
    recording.scrape(&[("countd", &countd)]);
    recording.assert_fires(&["CountdRedisAofWriteFailed"], 5);
}
