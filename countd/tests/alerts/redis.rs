//! Redis that is away, slow, busy or full.

use super::{CONFIG, Recording, of_redis, wait_until_collected};
use crate::support::{Countd, metric, on_note};
use countint_tests::{Server, wait_until};
use std::thread;

#[test]
fn redis_that_is_away_is_noticed() {
    let mut server = Server::start();
    let countd = Countd::start(&server, CONFIG);
    let api = countd.api();
    api.act("like", on_note(1, 1));
    wait_until_collected(&countd);
    let mut recording = Recording::default();
    recording.scrape(&[("countd", &countd)]);
    server.kill();
    let node = format!("countd_redis_up{{node=\"127.0.0.1:{}\"}} 0", server.port());
    wait_until("the node is down", || {
        let (_, text) = api.try_get("/metrics").expect("a response");
        text.contains(&node)
    });
    // The state of the logs is unknown.
    let (_, text) = api.try_get("/metrics").expect("a response");
    assert!(!text.contains("\ncountd_log_lag_events "), "{text}");
    for user in 0..2 {
        for eid in 0..5 {
            assert_eq!(api.post("/action/like", &on_note(eid, user)).0, 503);
        }
        recording.scrape(&[("countd", &countd)]);
    }
    recording.assert_fires(&["CountdRedisDown", "CountdErrors"], 15);
}

#[test]
fn slow_requests_are_noticed() {
    let server = Server::start();
    let countd = Countd::start(&server, CONFIG);
    let api = countd.api();
    api.act("like", on_note(1, 1));
    wait_until_collected(&countd);
    let mut recording = Recording::default();
    recording.scrape(&[("countd", &countd)]);
    // The first pause is that of requests of which some series are new.
    for _ in 0..2 {
        server.client().ok("CLIENT PAUSE 3000 ALL");
        thread::scope(|scope| {
            for eid in 0..20 {
                let api = countd.api();
                scope.spawn(move || api.counts(eid));
            }
        });
        recording.scrape(&[("countd", &countd)]);
    }
    recording.assert_fires(&["CountdSlow"], 20);
}

#[test]
fn a_busy_redis_is_noticed() {
    let server = Server::start();
    let countd = Countd::start(&server, CONFIG);
    wait_until_collected(&countd);
    let mut recording = Recording::default();
    recording.scrape(&[("countd", &countd)]);
    let busy = || of_redis(&countd, &server, "main_thread_seconds_total");
    let before = busy();
    let mut client = server.client();
    client.ok("CONFIG SET busy-reply-threshold 100000");
    // A scrape before the last one, so that the rise of the last one goes on.
    recording.scrape(&[("countd", &countd)]);
    wait_until("the script took seconds", || {
        client.ok("EVAL \"for i = 1, 30000000 do end\" 0");
        busy() >= before + 3
    });
    recording.scrape(&[("countd", &countd)]);
    // If nothing else had the processor, the script took 2 seconds at most: a rise of 3 seconds, of which one may be a part of the second before.
    recording.assert_fires_in_steps(&["CountdRedisBusy"], 15, 2);
}

#[test]
fn a_full_redis_is_noticed() {
    let server = Server::start();
    let config = format!("{CONFIG}[limits]\nuser = {{ per_second = 1, burst = 5 }}\n");
    let countd = Countd::start(&server, &config);
    let api = countd.api();
    api.act("like", on_note(1, 1));
    wait_until_collected(&countd);
    let mut recording = Recording::default();
    recording.scrape(&[("countd", &countd)]);
    let mut client = server.client();
    client.ok("CONFIG SET maxmemory 1");
    for _ in 0..3 {
        api.ok(api.get("/status/note/1?uid=1&metrics=like"));
    }
    assert!(metric(&api, "countd_limit_failures_total") > 0);
    wait_until("the limit is collected", || {
        of_redis(&countd, &server, "memory_max_bytes") == 1
    });
    recording.scrape(&[("countd", &countd)]);
    recording.assert_fires(&["CountdRedisMemoryHigh", "CountdLimitFailures"], 10);
}

#[test]
fn evictions_are_noticed() {
    let server = Server::start();
    let countd = Countd::start(&server, CONFIG);
    wait_until_collected(&countd);
    let mut recording = Recording::default();
    recording.scrape(&[("countd", &countd)]);
    let mut client = server.client();
    client.ok("CONFIG SET maxmemory-policy volatile-ttl");
    // Keys of no use to countd, so that nothing else is evicted.
    let used = client.info_number("memory", "used_memory");
    client.ok(&format!("CONFIG SET maxmemory {}", used + 2_000_000));
    let value = "x".repeat(100_000);
    for key in 0..40 {
        client.call(&["SET", &format!("filler:{key}"), &value, "EX", "1000"]);
    }
    wait_until("evictions are collected", || {
        of_redis(&countd, &server, "evicted_keys_total") > 0
    });
    recording.scrape(&[("countd", &countd)]);
    recording.assert_fires(&["CountdRedisMayEvict", "CountdRedisEvicted"], 10);
}
