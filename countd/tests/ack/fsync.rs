//! `redis.ack = "fsync"`: servers that can, and servers that cannot.

use super::{NEVER, calls, config, confirmed};
use crate::support::invariants::assert_invariants;
use crate::support::workload::{Random, StopOnDrop};
use crate::support::{Api, Countd, on_note, run, set_schema, wait_until_drained};
use countint_tests::{Disk, Server};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// Clients that like at the same time: each waits for a sync, which Redis does once a second.
const CLIENTS: usize = 24;
/// How often the machine fails.
const FAILURES: usize = 4;

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

/// Lets clients like note 1, each time another user, until it is stopped. Adds the users whose likes were confirmed.
fn like(api: &Api, next: &AtomicU64, stop: &AtomicBool, users: &Mutex<Vec<u64>>) {
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    let user = next.fetch_add(1, Relaxed);
                    let sent = api.try_post("/action/like", &on_note(1, user).to_string());
                    // It fails while the server is down.
                    match sent {
                        Ok((200, _)) => users.lock().expect("users").push(user),
                        _ => thread::sleep(Duration::from_millis(20)),
                    }
                }
            });
        }
    });
}

/// The machine fails: the server ends, and its append-only file where it was last synced.
#[test]
fn confirmed_writes_survive_a_failure_of_the_machine() {
    let disk = Disk::new();
    let mut server = Server::builder()
        .append_only(true)
        .config("appendfsync everysec")
        .disk(&disk)
        .start();
    let config = &config("fsync", NEVER);
    if !has_waitaof(&server) {
        set_schema(&server, "");
        assert!(refusal(&server).contains("7.2"));
        return;
    }
    let countd = Countd::start(&server, config);
    let (api, next) = (countd.api(), AtomicU64::new(1));
    let (mut random, mut lost, mut all) = (Random(7), 0, 0);
    for _ in 0..FAILURES {
        let (stop, users) = (AtomicBool::new(false), Mutex::default());
        thread::scope(|scope| {
            let running = StopOnDrop(&stop);
            let (api, next, stop, users) = (&api, &next, &stop, &users);
            scope.spawn(|| like(api, next, stop, users));
            thread::sleep(Duration::from_millis(1_500 + random.below(1_000)));
            server.kill();
            drop(running);
        });
        lost += disk.lose_unsynced(&server.append_only_file());
        server.start_again();
        let users = users.into_inner().expect("users");
        assert!(!users.is_empty(), "no like was confirmed");
        all += users.len();
        for user in users {
            let again = confirmed(|| api.post("/action/like", &on_note(1, user)));
            assert_eq!(again["changed"], false, "the like of {user} is lost");
        }
    }
    assert!(lost > 0, "everything was synced");
    wait_until_drained(&server, 16);
    // Some that were not confirmed are there, too.
    let likes = api.counts(1)["like"].as_u64().expect("a count");
    assert!(likes >= all as u64, "{likes} of {all}");
    assert_invariants(&server, config);
}
