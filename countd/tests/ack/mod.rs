//! `redis.ack`: a write is confirmed when its replicas, or the disk, have it.

mod cluster;
mod fsync;
mod topic;

use crate::support::invariants::assert_invariants;
use crate::support::{
    Api, Countd, Settings, assert_refused, on_note, printed, run, set_schema, wait_until_drained,
    with,
};
use countint_tests::{Client, Server, wait_until};
use serde_json::{Value as Json, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// A timeout that ends soon, and one that ends never.
const SOON: u32 = 200;
const NEVER: u32 = 60_000;
/// The code of an answer to a write that is not safe.
const CODE: &str = "not_acknowledged";

fn config(ack: &str, timeout_ms: u32) -> String {
    format!(
        "[redis]\nack = \"{ack}\"\nack_timeout_ms = {timeout_ms}\n[log]\npartitions = 16\n[consumer]\nlinger_ms = 5\n\
         [users]\ncounters = [\"unread\"]\n"
    )
}

/// The number of clients that wait for acknowledgements.
fn waiting(client: &mut Client) -> u64 {
    client.info_number("clients", "blocked_clients")
}

/// The number of calls of a command.
fn calls(client: &mut Client, command: &str) -> u64 {
    let stats = client.info("commandstats");
    let stat = stats.get(&format!("cmdstat_{command}"));
    let calls = stat.and_then(|stat| stat.strip_prefix("calls=")?.split(',').next());
    calls.map_or(0, |calls| calls.parse().expect("a number"))
}

/// Sends a write until it is confirmed.
fn confirmed(send: impl Fn() -> (u16, Json)) -> Json {
    let mut last = (0, Json::Null);
    wait_until("the write is confirmed", || {
        last = send();
        assert!([200, 202, 503].contains(&last.0), "{last:?}");
        last.0 != 503
    });
    last.1
}

fn envelope(id: &str) -> Json {
    let payload = json!({ "delta": 1, "uid": "7" });
    json!({ "event_id": id, "event_type": "repost", "aggregate_type": "note", "aggregate_id": "5", "payload": payload })
}

#[test]
fn no_write_is_confirmed_before_a_replica_has_it() {
    let server = Server::start();
    let replica = server.replica();
    let config = &config("replicas:1", SOON);
    let countd = Countd::start(&server, config);
    let api = countd.api();
    let reset = json!({ "etype": "note", "eid": "5", "metric": "read" });
    let adjust = with(reset.clone(), json!({ "add": 5, "reason": "test" }));
    let author = json!({ "author": "9" });
    let unread = json!({ "uid": "7", "counter": "unread" });
    let with_key = with(on_note(2, 7), json!({ "idempotencyKey": "k" }));
    let posts = [
        ("/action/like", on_note(1, 7)),
        ("/action/read", with_key.clone()),
        ("/events", envelope("e1")),
        ("/counter/adjust", adjust),
        ("/counter/reset", reset),
        ("/relation/counter/reset", unread),
    ];
    let line = |eid| with(on_note(eid, 7), json!({ "metric": "like" }));
    let lines = |eid| {
        let sent = api.try_post("/actions", &line(eid).to_string());
        let (status, text) = sent.expect("a response");
        assert_eq!(status, 200, "{text}");
        serde_json::from_str::<Json>(text.trim()).expect("a line")
    };
    replica.signal("STOP");
    for (path, body) in &posts {
        assert_refused(&api, path, body, 503, CODE);
    }
    // Repeated ones change nothing, whichever connection sends them. What they report is not safe yet.
    for _ in 0..8 {
        assert_refused(&api, "/action/like", &on_note(1, 7), 503, CODE);
    }
    assert_eq!(lines(3)["error"]["code"], CODE);
    for (status, refused) in [
        api.put("/entity/note/1", &author),
        api.delete("/entity/note/4"),
        api.delete("/user/4"),
    ] {
        assert_eq!((status, &refused["code"]), (503, &json!(CODE)), "{refused}");
    }
    // Reads do not wait. The actions were executed.
    assert_eq!(api.counts(1)["like"], 1);
    let note = printed(&run(&server, config, &["check"]));
    assert!(
        !note.contains("replicas:1"),
        "the replica is connected: {note}"
    );
    replica.signal("CONT");
    let liked = confirmed(|| api.post("/action/like", &on_note(1, 7)));
    assert_eq!(liked, json!({ "changed": false, "count": 1 }));
    let read = confirmed(|| api.post("/action/read", &with_key));
    assert_eq!(read["changed"], true, "it is the first answer");
    confirmed(|| api.post("/events", &envelope("e1")));
    wait_until("a line is confirmed", || lines(3)["changed"] == false);
    wait_until_drained(&server, 16);
    assert_eq!(api.counts(2)["read"], 1, "it counts once");
    assert_eq!(api.counts(5)["repost"], 1, "it counts once");
    // The server itself refuses nothing while the replica is away.
    drop(replica);
    wait_until("the replica is gone", || {
        server.client().info("replication")["connected_slaves"] == "0"
    });
    assert_refused(&api, "/action/like", &on_note(6, 7), 503, CODE);
    let note = printed(&run(&server, config, &["check"]));
    assert!(
        note.contains("redis.ack is replicas:1, but the server ")
            && note.contains(" has 0 replicas"),
        "{note}"
    );
    assert_invariants(&server, config);
}

/// Lets clients like notes that differ, at the same time, while the replica is suspended, and then resumes it.
fn like_at_once(api: &Api, clients: u64, meanwhile: impl FnOnce()) {
    let sending = AtomicU64::new(0);
    thread::scope(|scope| {
        let likes: Vec<_> = (0..clients)
            .map(|eid| {
                let sending = &sending;
                scope.spawn(move || {
                    sending.fetch_add(1, Ordering::Relaxed);
                    api.act("like", on_note(eid, eid + 1))
                })
            })
            .collect();
        wait_until("all clients send", || {
            sending.load(Ordering::Relaxed) == clients
        });
        meanwhile();
        for like in likes {
            assert_eq!(like.join().expect("a client ends")["changed"], true);
        }
    });
}

#[test]
fn concurrent_actions_share_a_wait_and_delay_no_read() {
    const CLIENTS: u64 = 60;
    let server = Server::start();
    let replica = server.replica();
    let config = &config("replicas:1", NEVER);
    set_schema(&server, config);
    // A consumer would wait, too.
    let command = "serve";
    let countd = Countd::with(&server, &Settings { command, config });
    let api = countd.api();
    let mut client = server.client();
    let before = calls(&mut client, "wait");
    replica.signal("STOP");
    like_at_once(&api, CLIENTS, || {
        wait_until("writes wait", || waiting(&mut client) >= 4);
        for eid in 1_000..1_020 {
            assert_eq!(api.counts(eid)["like"], 0);
        }
        // No more connections wait: the other writes are sent when one is free.
        assert_eq!(waiting(&mut client), 4);
        replica.signal("CONT");
    });
    let waits = calls(&mut client, "wait") - before;
    assert!((1..CLIENTS / 2).contains(&waits), "{waits} calls of WAIT");
}

#[test]
fn a_confirmed_write_is_in_the_replica() {
    let server = Server::start();
    let replica = server.replica();
    let config = &config("replicas:1", NEVER);
    set_schema(&server, config);
    let countd = Countd::start(&server, config);
    let api = countd.api();
    let mut client = replica.client();
    for eid in 0..300 {
        // The replica is always a little behind.
        if eid % 30 == 0 {
            replica.signal("STOP");
            let api = &api;
            thread::scope(|scope| {
                let like = scope.spawn(move || api.act("like", on_note(eid, 7)));
                wait_until("it waits", || waiting(&mut server.client()) >= 1);
                replica.signal("CONT");
                like.join().expect("a client ends");
            });
        } else {
            api.act("like", on_note(eid, 7));
        }
        let facts = client.run(&format!("RBM.CARD rbm:like:note:{eid}"));
        assert_eq!(facts, "(integer) 1", "note {eid}");
    }
}
