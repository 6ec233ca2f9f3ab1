//! Wall clocks that are set, by hours and by days, ahead and back: nothing counts twice or not at all, nobody is refused for long, and
//! what the dead leave behind is taken over.

use crate::limits::{is_limited, limit};
use crate::poison::{append, read};
use crate::support::{
    Answer, Api, Countd, Settings, metric, on_note, printed, run, set_schema, wait_until_drained,
    with,
};
use countint_tests::{Clock, Server, reply, wait_until};
use serde_json::json;

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;
/// Where clocks go, one after the other.
const STEPS: [i64; 6] = [-HOUR, 0, HOUR, -10 * DAY, 10 * DAY, 0];
const PARTITIONS: u16 = 64;
const CONFIG: &str = "[log]\npartitions = 64\n[consumer]\nlinger_ms = 5\ndead_after_ms = 1000\n[facts]\nfold_seconds = 1\n";

/// A server with a clock of its own.
fn server() -> (Server, Clock) {
    let clock = Clock::new();
    (Server::builder().clock(&clock).start(), clock)
}

/// What a server says is the time, in seconds.
fn time_of(server: &Server) -> i64 {
    let time = reply::array(server.client().ok("TIME"));
    let seconds = reply::text(time[0].clone());
    seconds.parse().expect("a number")
}

fn like(api: &Api, eid: u64, uid: u64) -> Answer {
    api.answer("/action/like", &[], Some(&on_note(eid, uid)))
}

#[test]
fn clocks_of_tests_are_set() {
    let (server, clock) = server();
    let other = Server::start();
    for step in STEPS {
        clock.set(step);
        // Valkey 9.1 answers with a time that it took up to 100 ms before.
        wait_until(&format!("the clock is {step} s ahead"), || {
            let ahead = time_of(&server) - time_of(&other);
            (ahead - step).abs() < 60
        });
    }
}

/// Refused, for no longer than a burst takes; then granted.
#[track_caller]
fn is_refused_for_a_moment(api: &Api, uid: u64, burst: u64) {
    let refused = (0..50).map(|eid| like(api, eid, uid));
    let refused = refused.into_iter().find(|answer| answer.status != 200);
    let refused = refused.expect("fifty were granted");
    is_limited(&refused, "user");
    assert!(
        refused.retry_after <= Some(burst),
        "{:?}",
        refused.retry_after
    );
    wait_until("the user is granted more", || {
        like(api, 100, uid).status == 200
    });
}

#[test]
fn users_have_their_limit_when_redis_clock_is_set() {
    const BURST: u64 = 5;
    let (server, clock) = server();
    let countd = Countd::start(&server, &limit("user", BURST));
    let api = countd.api();
    let mut before = 0;
    for (uid, step) in (1..).zip(STEPS) {
        is_refused_for_a_moment(&api, uid + 100, BURST);
        assert_eq!(like(&api, 1, uid).status, 200);
        clock.set(step);
        // One who had sent one request may go on at once, and nobody is refused for longer than ever.
        assert_eq!(like(&api, 2, uid).status, 200, "from {before} to {step}");
        is_refused_for_a_moment(&api, uid, BURST);
        is_refused_for_a_moment(&api, uid + 100, BURST);
        before = step;
    }
}

#[test]
fn a_clock_that_is_set_back_grants_nobody_more() {
    const BURST: u64 = 1_000;
    let (server, clock) = server();
    let countd = Countd::start(&server, &limit("user", BURST));
    let feed = |items: u64| {
        let items = vec![json!({ "etype": "note", "eid": 1 }); items as usize];
        let feed = json!({ "uid": 42, "items": items, "metrics": ["like"] });
        countd.api().answer("/status/batch", &[], Some(&feed))
    };
    // Pages of a feed have 500 at most.
    assert_eq!(feed(500).status, 200);
    clock.set(-HOUR);
    assert_eq!(feed(400).status, 200, "what was left is left");
    is_limited(&feed(500), "user");
    clock.set(-2 * HOUR);
    is_limited(&feed(500), "user");
    // A limit that was written by an older version, or with a greater burst, is none that stays.
    let mut client = server.client();
    for text in [
        "99999999999999999",
        "99999999999999999@99999999999999998",
        "nonsense",
    ] {
        client.ok(&format!("SET act:limit:43 {text}"));
        let api = countd.api();
        wait_until("the limit is corrected", || like(&api, 1, 43).status == 200);
    }
}

#[test]
fn addresses_have_their_limit_when_countds_clock_is_set() {
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
    let ask = || api.answer("/counter/note/1", &[], None);
    for step in STEPS {
        clock.set(step);
        let refused = (0..50).map(|_| ask()).find(|answer| answer.status != 200);
        let refused = refused.expect("fifty were granted");
        is_limited(&refused, "address");
        assert!(refused.retry_after <= Some(5), "{:?}", refused.retry_after);
        wait_until("the address is granted more", || ask().status == 200);
    }
}

/// How many consumers count as alive.
fn living(server: &Server) -> i64 {
    reply::int(server.client().ok("ZCARD countd:consumers"))
}

/// So many reads of each of the first notes.
fn act(api: &Api, each: u64) {
    let lines: Vec<String> = (0..each * 100)
        .map(|i| with(on_note(i % 100, i), json!({ "metric": "read" })).to_string())
        .collect();
    let (status, _) = api
        .try_post("/actions", &lines.join("\n"))
        .expect("an answer");
    assert_eq!(status, 200);
}

#[track_caller]
fn are_counted(server: &Server, api: &Api, each: u64) {
    wait_until_drained(server, PARTITIONS);
    for note in 0..100 {
        assert_eq!(api.counts(note)["read"], json!(each), "note {note}");
    }
}

#[test]
fn the_dead_are_found_and_everything_counts_once_when_redis_clock_is_set() {
    let (server, clock) = server();
    set_schema(&server, CONFIG);
    let start = |command| {
        Countd::with(
            &server,
            &Settings {
                command,
                config: CONFIG,
            },
        )
    };
    let (mut first, mut second, serve) = (start("consume"), start("consume"), start("serve"));
    let api = serve.api();
    let mut done = 0;
    for step in STEPS {
        wait_until("both are there", || living(&server) == 2);
        act(&api, 3);
        // It is in the list until a moment from now, and dies as the clock goes back.
        first.kill();
        clock.set(step);
        act(&api, 3);
        done += 6;
        are_counted(&server, &api, done);
        wait_until("the dead one is gone", || living(&server) == 1);
        first.launch();
        std::mem::swap(&mut first, &mut second);
    }
    // Nobody dies, and the clock jumps while there is something to count.
    wait_until("both are there", || living(&server) == 2);
    for step in STEPS {
        act(&api, 3);
        clock.set(step);
        act(&api, 3);
        done += 6;
        are_counted(&server, &api, done);
    }
    wait_until("both are there", || living(&server) == 2);
    wait_until("nothing waits", || {
        metric(&first.api(), "countd_lag_events") + metric(&second.api(), "countd_lag_events") == 0
    });
}

#[test]
fn each_consumer_lives_as_long_as_its_own_setting_says() {
    let server = Server::start();
    let mut client = server.client();
    let script = include_str!("../src/lua/heartbeat.lua");
    let mut beat = |name: &str, lifetime: &str| {
        let found = client.call(&["EVAL", script, "1", "countd:consumers", name, lifetime]);
        let found: Vec<String> = reply::array(found).into_iter().map(reply::text).collect();
        found.len()
    };
    assert_eq!(beat("1-a/600000", "600000"), 1);
    assert_eq!(beat("2-b/1000", "1000"), 2);
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
        "one with a shorter life leaves it alone"
    );
    // Scores from a clock that is ahead; the last one is a name of an older version.
    let mut client = server.client();
    client.ok("ZADD countd:consumers 99999999999999 1-a/600000 99999999999999 3-c");
    assert_eq!(beat("2-b/1000", "1000"), 3);
    assert!((500..=600).contains(&score("1-a/600000")));
    assert!(score("3-c") <= 1);
}

#[test]
fn an_idempotency_key_holds_within_its_window_when_clocks_are_set() {
    let (server, redis) = server();
    let countd = Clock::new();
    set_schema(&server, "");
    let settings = Settings {
        command: "all",
        config: "",
    };
    let countd_process = Countd::with_clock(&server, &settings, &countd);
    let api = countd_process.api();
    let keyed = with(on_note(1, 42), json!({ "idempotencyKey": "k" }));
    let envelope = json!({
        "event_id": "one", "event_type": "comment", "aggregate_type": "note", "aggregate_id": "1",
        "payload": { "uid": 42, "delta": 1 },
    });
    let act = |changed: bool| {
        assert_eq!(api.act("read", keyed.clone())["changed"], changed);
        assert_eq!(api.act("like", keyed.clone())["changed"], changed);
        api.ok(api.post("/events", &envelope));
        wait_until_drained(&server, 1024);
    };
    act(true);
    for step in [-HOUR, HOUR, -10 * DAY, DAY, 0] {
        redis.set(step);
        countd.set(-step);
        act(false);
        assert_eq!(
            api.counts(1),
            json!({ "read": 1, "like": 1, "fav": 0, "comment": 1, "repost": 0 })
        );
    }
    // Ahead by more than the window, it is over: what is repeatable counts again, what is once does not.
    redis.set(3 * DAY);
    assert_eq!(api.act("like", keyed.clone())["changed"], false);
    assert_eq!(api.act("read", keyed.clone())["changed"], true);
    api.ok(api.post("/events", &envelope));
    wait_until_drained(&server, 1024);
    assert_eq!(
        api.counts(1),
        json!({ "read": 2, "like": 1, "fav": 0, "comment": 2, "repost": 0 })
    );
}

#[test]
fn nobody_does_it_twice_when_the_day_of_countd_is_wrong() {
    let (server, clock) = (Server::start(), Clock::new());
    let config = format!(
        "{CONFIG}[entities]\nnote = \"v1\"\n[metrics.like]\nnature = \"once\"\ncount = \"now\"\nfacts = \"daily\"\n"
    );
    set_schema(&server, &config);
    let settings = Settings {
        command: "all",
        config: &config,
    };
    let countd = Countd::with_clock(&server, &settings, &clock);
    let api = countd.api();
    let mut users: Vec<String> = Vec::new();
    for (uid, step) in (1_u64..).zip(STEPS.into_iter().chain([-20_000 * DAY, 40_000 * DAY, 0])) {
        clock.set(step);
        let count = api.act("like", on_note(1, uid))["count"].clone();
        assert_eq!(count, json!(uid));
        if step > 1_000 * DAY {
            wait_until("all older days are folded", || {
                metric(&api, "countd_facts_folded_total") >= uid - 1
            });
        }
        users.push(uid.to_string());
        // Whatever day it was for those before, and whether their day is folded already.
        for uid in 1..=uid {
            let answer = api.act("like", on_note(1, uid));
            assert_eq!(
                answer,
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
    for left in (0..users.len() as u64).rev() {
        let answer = api.act("unlike", on_note(1, left + 1));
        assert_eq!(answer, json!({ "changed": true, "count": left }));
    }
    assert_eq!(metric(&api, "countd_events_dead_total"), 0);
}

#[test]
fn dead_letters_stay_in_order_when_clocks_are_set() {
    let (server, redis) = server();
    let clock = Clock::new();
    let config = "[log]\npartitions = 8\n[consumer]\nlinger_ms = 5\n";
    set_schema(&server, config);
    let settings = Settings {
        command: "all",
        config,
    };
    let countd = Countd::with_clock(&server, &settings, &clock);
    let mut client = server.client();
    for (uid, step) in (1_u64..).zip(STEPS) {
        redis.set(step);
        clock.set(-step);
        let poison = read(1, json!({ "uid": uid, "metric": "nothing" }));
        client.pipeline(&[
            append(poison.to_string()),
            append(read(1, json!({})).to_string()),
        ]);
        wait_until_drained(&server, 8);
        assert_eq!(
            countd.api().counts(1)["read"],
            json!(uid),
            "what is good counts"
        );
    }
    let letters = printed(&run(&server, config, &["dead", "list"]));
    let users: Vec<u64> = letters
        .lines()
        .map(|line| {
            let letter: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let payload = letter["payload"].as_str().expect("a text");
            let event: serde_json::Value = serde_json::from_str(payload).expect("JSON");
            event["uid"].as_u64().expect("a user")
        })
        .collect();
    assert_eq!(users, (1..=STEPS.len() as u64).collect::<Vec<_>>());
}
