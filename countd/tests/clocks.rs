//! Wall clocks that jump by hours and days: everything counts once, rate limits recover, and the partitions of failed consumers are
//! reassigned.

use crate::limits::{assert_limited, limit};
use crate::poison::{append, read};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{Clocks, TestStore, for_each_store, module_with_clock};
use crate::support::{
    Api, Countd, Response, Settings, metric, on_note, printed, run, set_schema, wait_until_drained,
    with,
};
use countint_tests::{Clock, Server, reply, wait_until};
use serde_json::json;

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;
/// The offsets to which clocks are set, one after the other.
const STEPS: [i64; 6] = [-HOUR, 0, HOUR, -10 * DAY, 10 * DAY, 0];
const PARTITIONS: u16 = 64;
const CONFIG: &str = "[log]\npartitions = 64\n[consumer]\nlinger_ms = 5\nsession_timeout_ms = 1000\n[facts]\ncompaction_interval_seconds = 1\n";

for_each_store! {
    [module_with_clock cluster_with_clocks]
    user_limits_hold_when_redis_clock_jumps
    a_clock_that_is_set_back_grants_no_extra_burst
    failed_consumers_are_detected_and_events_count_once_when_redis_clock_jumps
    an_idempotency_key_holds_within_its_window_when_clocks_jump
    dead_letters_stay_in_order_when_clocks_jump
}

mod of_countd {
    use super::*;

    for_each_store!([module cluster] daily_facts_are_unique_when_countds_day_is_wrong);
}

/// The number of partitions of tests that do not need more.
const FEW_PARTITIONS: u16 = 16;

fn few_partitions(config: &str) -> String {
    format!("{config}[log]\npartitions = {FEW_PARTITIONS}\n")
}

/// The time of a server, in seconds.
fn time_of(server: &Server) -> i64 {
    let time = reply::array(server.client().ok("TIME"));
    let seconds = reply::text(time[0].clone());
    seconds.parse().expect("a number")
}

fn like(api: &Api, eid: u64, uid: u64) -> Response {
    api.request("/action/like", &[], Some(&on_note(eid, uid)))
}

#[test]
fn the_clock_of_a_server_can_be_set() {
    let (store, clock) = module_with_clock();
    let server = &store.server;
    let other = Server::start();
    for step in STEPS {
        clock.set(step);
        // Valkey 9.1 replies with a cached time that is up to 100 ms old.
        wait_until(&format!("the clock is {step} s ahead"), || {
            let ahead = time_of(server) - time_of(&other);
            (ahead - step).abs() < 60
        });
    }
}

/// Asserts that the user reaches the limit, and is granted items again after at most the time of a burst.
#[track_caller]
fn assert_limited_temporarily(api: &Api, uid: u64, burst: u64) {
    let refused = (0..50).map(|eid| like(api, eid, uid));
    let refused = refused.into_iter().find(|response| response.status != 200);
    let refused = refused.expect("fifty were granted");
    assert_limited(&refused, "user");
    assert!(
        refused.retry_after <= Some(burst),
        "{:?}",
        refused.retry_after
    );
    wait_until("the user is granted more", || {
        like(api, 100, uid).status == 200
    });
}

fn user_limits_hold_when_redis_clock_jumps((store, clocks): (TestStore, Clocks)) {
    const BURST: u64 = 5;
    let countd = Countd::start(&store.server, &few_partitions(&limit("user", BURST)));
    let api = countd.api();
    let mut before = 0;
    for (uid, step) in (1..).zip(STEPS) {
        assert_limited_temporarily(&api, uid + 100, BURST);
        assert_eq!(like(&api, 1, uid).status, 200);
        clocks.set(step);
        // A user below the limit is still granted, and no user is refused for longer than a burst.
        assert_eq!(like(&api, 2, uid).status, 200, "from {before} to {step}");
        assert_limited_temporarily(&api, uid, BURST);
        assert_limited_temporarily(&api, uid + 100, BURST);
        before = step;
    }
}

fn a_clock_that_is_set_back_grants_no_extra_burst((store, clocks): (TestStore, Clocks)) {
    const BURST: u64 = 1_000;
    let countd = Countd::start(&store.server, &few_partitions(&limit("user", BURST)));
    let feed = |items: u64| {
        let items = vec![json!({ "etype": "note", "eid": 1 }); items as usize];
        let feed = json!({ "uid": 42, "items": items, "metrics": ["like"] });
        countd.api().request("/status/batch", &[], Some(&feed))
    };
    // A batch has at most 500 items.
    assert_eq!(feed(500).status, 200);
    clocks.set(-HOUR);
    assert_eq!(feed(400).status, 200, "the remaining burst is kept");
    assert_limited(&feed(500), "user");
    clocks.set(-2 * HOUR);
    assert_limited(&feed(500), "user");
    // A stored limit of an older version, or with a greater burst, is corrected.
    let mut client = store.server.client();
    let key = store.key("act:limit:", "43", "43");
    for text in [
        "99999999999999999",
        "99999999999999999@99999999999999998",
        "nonsense",
    ] {
        client.ok(&format!("SET {key} {text}"));
        let api = countd.api();
        wait_until("the limit is corrected", || like(&api, 1, 43).status == 200);
    }
}

#[test]
fn address_limits_hold_when_countds_clock_jumps() {
    let (server, clock) = (Server::start(), Clock::new());
    let config = limit("address", 5) + "exempt = []\n";
    set_schema(&server, "");
    let command = "serve";
    let countd = Countd::with_clock(
        &server,
        &Settings {
            command,
            config: &config,
        },
        &clock,
    );
    let api = countd.api();
    let read = || api.request("/counter/note/1", &[], None);
    for step in STEPS {
        clock.set(step);
        let refused = (0..50)
            .map(|_| read())
            .find(|response| response.status != 200);
        let refused = refused.expect("fifty were granted");
        assert_limited(&refused, "address");
        assert!(refused.retry_after <= Some(5), "{:?}", refused.retry_after);
        wait_until("the address is granted more", || read().status == 200);
    }
}

/// The number of live members of the consumer group.
fn live_members(server: &Server) -> i64 {
    reply::int(server.client().ok("ZCARD countd:consumers"))
}

/// Sends `each` reads of each of the first 100 notes.
fn send_reads(api: &Api, each: u64) {
    let lines: Vec<String> = (0..each * 100)
        .map(|i| with(on_note(i % 100, i), json!({ "metric": "read" })).to_string())
        .collect();
    let (status, _) = api
        .try_post("/actions", &lines.join("\n"))
        .expect("a response");
    assert_eq!(status, 200);
}

#[track_caller]
fn assert_counted(server: &Server, api: &Api, each: u64) {
    wait_until_drained(server, PARTITIONS);
    for note in 0..100 {
        assert_eq!(api.counts(note)["read"], json!(each), "note {note}");
    }
}

fn failed_consumers_are_detected_and_events_count_once_when_redis_clock_jumps(
    (store, clocks): (TestStore, Clocks),
) {
    let server = &store.server;
    set_schema(server, CONFIG);
    let start = |command| {
        let config = CONFIG;
        Countd::with(server, &Settings { command, config })
    };
    let (mut first, mut second, serve) = (start("consume"), start("consume"), start("serve"));
    let api = serve.api();
    let mut done = 0;
    for step in STEPS {
        wait_until("both are members", || live_members(server) == 2);
        send_reads(&api, 3);
        // Its heartbeat has not expired when it is killed and the clock jumps.
        first.kill();
        clocks.set(step);
        send_reads(&api, 3);
        done += 6;
        assert_counted(server, &api, done);
        wait_until("the failed consumer is removed", || {
            live_members(server) == 1
        });
        first.launch();
        std::mem::swap(&mut first, &mut second);
    }
    // Without a failure, the clock jumps while events are counted.
    wait_until("both are members", || live_members(server) == 2);
    for step in STEPS {
        send_reads(&api, 3);
        clocks.set(step);
        send_reads(&api, 3);
        done += 6;
        assert_counted(server, &api, done);
    }
    wait_until("both are members", || live_members(server) == 2);
    wait_until("there is no lag", || {
        metric(&first.api(), "countd_lag_events") + metric(&second.api(), "countd_lag_events") == 0
    });
    assert_invariants(server, CONFIG);
}

#[test]
fn each_consumer_has_its_own_session_timeout() {
    let server = Server::start();
    let mut client = server.client();
    let script = include_str!("../src/lua/heartbeat.lua");
    let mut heartbeat = |name: &str, timeout: &str| {
        let members = client.call(&["EVAL", script, "1", "countd:consumers", name, timeout]);
        reply::array(members).len()
    };
    assert_eq!(heartbeat("1-a/600000", "600000"), 1);
    assert_eq!(heartbeat("2-b/1000", "1000"), 2);
    let score = |name: &str| {
        let score = reply::text(
            server
                .client()
                .ok(&format!("ZSCORE countd:consumers {name}")),
        );
        score.parse::<i64>().expect("a number") / 1_000 - time_of(&server)
    };
    assert!(
        score("1-a/600000") > 500,
        "a member with a shorter timeout does not change it"
    );
    // Scores from a clock that was ahead; the last name has the format of an older version.
    let mut client = server.client();
    client.ok("ZADD countd:consumers 99999999999999 1-a/600000 99999999999999 3-c");
    assert_eq!(heartbeat("2-b/1000", "1000"), 3);
    assert!((500..=600).contains(&score("1-a/600000")));
    assert!(score("3-c") <= 1);
}

fn an_idempotency_key_holds_within_its_window_when_clocks_jump(
    (store, redis): (TestStore, Clocks),
) {
    let countd = Clock::new();
    let config = &few_partitions("");
    set_schema(&store.server, config);
    let command = "all";
    let settings = Settings { command, config };
    let countd_process = Countd::with_clock(&store.server, &settings, &countd);
    let api = countd_process.api();
    let keyed = with(on_note(1, 42), json!({ "idempotencyKey": "k" }));
    let envelope = json!({
        "event_id": "one", "event_type": "comment", "aggregate_type": "note", "aggregate_id": "1",
        "payload": { "uid": 42, "delta": 1 },
    });
    // A repeated idempotency key gets the first answer.
    let act = || {
        assert_eq!(api.act("read", keyed.clone())["changed"], true);
        assert_eq!(api.act("like", keyed.clone())["changed"], true);
        api.ok(api.post("/events", &envelope));
        wait_until_drained(&store.server, FEW_PARTITIONS);
    };
    act();
    for step in [-HOUR, HOUR, -10 * DAY, DAY, 0] {
        redis.set(step);
        countd.set(-step);
        act();
        assert_eq!(
            api.counts(1),
            json!({ "read": 1, "like": 1, "fav": 0, "comment": 1, "repost": 0 })
        );
    }
    // Behind the window a repeatable metric counts again, and a once metric does not.
    redis.set(3 * DAY);
    assert_eq!(api.act("like", keyed.clone())["changed"], false);
    assert_eq!(api.act("read", keyed.clone())["changed"], true);
    api.ok(api.post("/events", &envelope));
    wait_until_drained(&store.server, FEW_PARTITIONS);
    assert_eq!(
        api.counts(1),
        json!({ "read": 2, "like": 1, "fav": 0, "comment": 2, "repost": 0 })
    );
}

fn daily_facts_are_unique_when_countds_day_is_wrong(store: TestStore) {
    let clock = Clock::new();
    let config = format!(
        "{CONFIG}[entities]\nnote = \"v1\"\n[metrics.like]\nnature = \"once\"\ncount = \"now\"\nfacts = \"daily\"\n"
    );
    set_schema(&store.server, &config);
    let settings = Settings {
        command: "all",
        config: &config,
    };
    let countd = Countd::with_clock(&store.server, &settings, &clock);
    let api = countd.api();
    let mut users: Vec<String> = Vec::new();
    for (uid, step) in (1_u64..).zip(STEPS.into_iter().chain([-20_000 * DAY, 40_000 * DAY, 0])) {
        clock.set(step);
        let count = api.act("like", on_note(1, uid))["count"].clone();
        assert_eq!(count, json!(uid));
        if step > 1_000 * DAY {
            wait_until("all older days are compacted", || {
                metric(&api, "countd_facts_compacted_total") >= uid - 1
            });
        }
        users.push(uid.to_string());
        // Facts of any earlier day are found, compacted or not.
        for uid in 1..=uid {
            let response = api.act("like", on_note(1, uid));
            assert_eq!(
                response,
                json!({ "changed": false, "count": count }),
                "{step}"
            );
        }
        let page = api.ok(api.get("/who/like/note/1"));
        let mut found: Vec<&str> = page["users"]
            .as_array()
            .expect("users")
            .iter()
            .filter_map(|user| user.as_str())
            .collect();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, users, "{step}");
    }
    for remaining in (0..users.len() as u64).rev() {
        let response = api.act("unlike", on_note(1, remaining + 1));
        assert_eq!(response, json!({ "changed": true, "count": remaining }));
    }
    assert_eq!(metric(&api, "countd_events_dead_total"), 0);
}

fn dead_letters_stay_in_order_when_clocks_jump((store, redis): (TestStore, Clocks)) {
    let server = &store.server;
    let clock = Clock::new();
    let config = "[log]\npartitions = 8\n[consumer]\nlinger_ms = 5\n";
    set_schema(server, config);
    let settings = Settings {
        command: "all",
        config,
    };
    let countd = Countd::with_clock(server, &settings, &clock);
    let mut client = server.client();
    for (uid, step) in (1_u64..).zip(STEPS) {
        redis.set(step);
        clock.set(-step);
        let poison = read(1, json!({ "uid": uid, "metric": "nothing" }));
        client.pipeline(&[
            append(&store, poison.to_string()),
            append(&store, read(1, json!({})).to_string()),
        ]);
        wait_until_drained(server, 8);
        assert_eq!(
            countd.api().counts(1)["read"],
            json!(uid),
            "the valid event counts"
        );
    }
    let listed = printed(&run(server, config, &["dead", "list"]));
    let users: Vec<u64> = listed
        .lines()
        .map(|line| {
            let dead_letter: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let payload = dead_letter["payload"].as_str().expect("a text");
            let event: serde_json::Value = serde_json::from_str(payload).expect("JSON");
            event["uid"].as_u64().expect("a user")
        })
        .collect();
    assert_eq!(users, (1..=STEPS.len() as u64).collect::<Vec<_>>());
}
