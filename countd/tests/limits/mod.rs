//! Rate limits: only clients above their limit are refused.

mod envelopes;
mod headers;

use crate::support::{
    Api, Countd, Response, Settings, metric, on_note, one_node_cluster, set_schema, with,
};
use countint_tests::Server;
use serde_json::{Value as Json, json};
use std::time::Instant;

/// A limit of one item a second.
pub fn limit(of: &str, burst: u64) -> String {
    format!("[limits]\n{of} = {{ per_second = 1, burst = {burst} }}\n")
}

/// Asserts that a response is 429 and says when to retry.
#[track_caller]
pub fn assert_limited(response: &Response, of: &str) {
    let error = &response.json;
    assert_eq!(
        (response.status, &error["code"]),
        (429, &json!("limited")),
        "{}",
        response.json
    );
    let message = error["detail"].as_str().expect("a sentence");
    assert!(message.contains(of), "{message}");
    assert!(response.retry_after.is_some_and(|seconds| seconds >= 1));
    assert_eq!(
        error["retryAfter"].as_u64(),
        response.retry_after,
        "{error}"
    );
}

/// Asserts that repeated requests reach the limit, even if one more was granted since the last refusal.
#[track_caller]
fn assert_limited_soon(send: impl Fn() -> Response) {
    let mut responses = (0..50).map(|_| send());
    let refused = responses.find(|response| response.status != 200);
    assert_limited(&refused.expect("fifty were granted"), "user");
}

/// Asserts that the number of granted items is the burst plus at most one per second.
#[track_caller]
pub fn assert_granted_within(granted: u64, burst: u64, since: Instant) {
    let max = burst + since.elapsed().as_secs() + 1;
    assert!(
        (burst..=max).contains(&granted),
        "{granted} of {burst} to {max}"
    );
}

/// An envelope with a read of note 1.
fn read_of(event_id: u64, uid: u64) -> Json {
    json!({
        "event_id": event_id, "event_type": "read", "aggregate_type": "note", "aggregate_id": "1",
        "payload": { "uid": uid, "delta": 1 },
    })
}

fn like(api: &Api, eid: u64, uid: u64) -> Response {
    api.request("/action/like", &[], Some(&on_note(eid, uid)))
}

#[test]
fn a_user_has_one_limit_in_all_processes() {
    assert_one_limit_in_all_processes(&Server::start(), 20);
    assert_one_limit_in_all_processes(&Server::start(), 200);
}

#[test]
fn a_user_has_one_limit_in_cluster_mode() {
    assert_one_limit_in_all_processes(&one_node_cluster(), 100);
}

fn assert_one_limit_in_all_processes(server: &Server, burst: u64) {
    // The scripts of the monitor would be counted, too.
    let config = limit("user", burst) + "[monitor]\ninterval_seconds = 0\n";
    set_schema(server, &config);
    let start = || {
        Countd::with(
            server,
            &Settings {
                command: "serve",
                config: &config,
            },
        )
    };
    let processes = [start(), start()];
    let (since, mut granted) = (Instant::now(), [0, 0]);
    for eid in 0..3 * burst {
        let process = usize::from(eid % 2 == 1);
        let response = like(&processes[process].api(), eid, 42);
        match response.status {
            200 => granted[process] += 1,
            _ => assert_limited(&response, "user"),
        }
    }
    assert!(
        granted.iter().all(|some| *some >= burst / 2 - 10),
        "both processes granted items: {granted:?}"
    );
    assert_granted_within(granted.iter().sum(), burst, since);
    for process in &processes {
        let api = process.api();
        assert_limited_soon(|| api.request("/status/note/1?uid=42&metrics=like", &[], None));
        let feed =
            json!({ "uid": 42, "items": [{ "etype": "note", "eid": 1 }], "metrics": ["like"] });
        assert_limited_soon(|| api.request("/status/batch", &[], Some(&feed)));
        assert_eq!(like(&api, 1, 43).status, 200, "another user");
        assert_eq!(
            api.get("/relation/counter?uid=42").0,
            200,
            "reads about the user are not limited"
        );
        assert!(metric(&api, "countd_limited_total{scope=\"user\"}") >= 2);
    }
    // From a burst of 50 on, a process acquires items in advance.
    let scripts = server.client().info("commandstats")["cmdstat_evalsha"].clone();
    let scripts = scripts
        .split(',')
        .next()
        .and_then(|calls| calls.strip_prefix("calls="));
    let scripts: u64 = scripts
        .expect("a number of calls")
        .parse()
        .expect("a number");
    assert!(burst < 50 || scripts < burst / 2 + 60, "{scripts} scripts");
    // Refused actions changed nothing.
    let done: u64 = (0..3 * burst)
        .map(|eid| {
            processes[0].api().counts(eid)["like"]
                .as_u64()
                .expect("a count")
        })
        .sum();
    assert_eq!(done, granted.iter().sum::<u64>() + 1);
}

#[test]
fn each_action_of_a_batch_counts_against_the_limit() {
    let server = Server::start();
    let countd = Countd::start(&server, &limit("user", 20));
    let api = countd.api();
    let line = |eid, uid| with(on_note(eid, uid), json!({ "metric": "like" })).to_string();
    let mut lines: Vec<String> = (0..30).map(|eid| line(eid, 42)).collect();
    lines.insert(3, "nonsense".to_owned());
    lines.extend((0..15).map(|eid| line(eid, 43)));
    let since = Instant::now();
    let (status, response) = api
        .try_post("/actions", &lines.join("\n"))
        .expect("a response");
    assert_eq!(status, 200);
    let results: Vec<Json> = response
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(results.len(), 46);
    assert_eq!(results[3]["error"]["code"], "malformed");
    let (of_42, of_43) = results.split_at(31);
    let granted = of_42
        .iter()
        .filter(|result| result["changed"] == true)
        .count();
    assert_granted_within(granted as u64, 20, since);
    for (at, result) in of_42.iter().enumerate().filter(|(at, _)| *at != 3) {
        let is_first = at < granted + 1;
        assert_eq!(result["changed"] == true, is_first, "{at}: {result}");
        assert!(
            is_first || result["error"]["retryAfter"].as_u64() >= Some(1),
            "{result}"
        );
    }
    assert!(
        of_43.iter().all(|result| result["changed"] == true),
        "{of_43:?}"
    );
    let total: u64 = (0..30)
        .map(|eid| api.counts(eid)["like"].as_u64().expect("a count"))
        .sum();
    assert_eq!(total, granted as u64 + 15);
    // A batch query costs one item for each entity. One that is longer than the burst is refused as too large.
    let feed = |uid: u64, items: usize| {
        let items = vec![json!({ "etype": "note", "eid": 1 }); items];
        let feed = json!({ "uid": uid, "items": items, "metrics": ["like"] });
        api.request("/status/batch", &[], Some(&feed))
    };
    assert_eq!(feed(44, 15).status, 200);
    assert_limited(&feed(44, 15), "user");
    assert_eq!(feed(44, 3).status, 200, "the remaining items are granted");
    assert_eq!(feed(45, 21).status, 413);
}

#[test]
fn each_address_has_a_limit() {
    let server = Server::start();
    let config = limit("address", 5)
        + "exempt = [\"127.0.0.9\"]\n[auth]\ntokens = [{ token = \"reader-reader-reader\", rights = [\"read\"] }]\n";
    let countd = Countd::start(&server, &config);
    let api = countd.api().authorized("Bearer reader-reader-reader");
    let (since, mut granted) = (Instant::now(), 0);
    for from in 0..20 {
        // Ignored: there is no trusted proxy.
        let forwarded = format!("1.2.3.{from}");
        let response = api.request("/counter/note/1", &[("x-forwarded-for", &forwarded)], None);
        match response.status {
            200 => granted += 1,
            _ => assert_limited(&response, "address"),
        }
    }
    assert_granted_within(granted, 5, since);
    assert_eq!(
        [
            api.get("/healthz").0,
            api.get("/readyz").0,
            api.get("/openapi.json").0
        ],
        [200; 3]
    );
    let lines = vec![on_note(1, 42).to_string(); 6].join("\n");
    assert_eq!(api.try_post("/actions", &lines).expect("a response").0, 429);
    let guess = countd.api().authorized("Bearer guess-guess-guess");
    assert_eq!(
        guess.get("/counter/note/1").0,
        429,
        "guessing tokens is limited"
    );
}

#[test]
fn the_address_comes_from_a_trusted_proxy() {
    let server = Server::start();
    let config =
        limit("address", 5) + "exempt = [\"1.2.3.9\"]\ntrusted_proxies = [\"127.0.0.0/8\"]\n";
    let countd = Countd::start(&server, &config);
    let api = countd.api();
    let read = |forwarded: &str, items: usize| {
        let items = vec![json!({ "etype": "note", "eid": 1 }); items];
        api.request(
            "/counter/batch",
            &[("x-forwarded-for", forwarded)],
            Some(&json!({ "items": items })),
        )
    };
    assert_eq!(read("1.2.3.4", 6).status, 413, "more than the burst");
    assert_eq!(read("1.2.3.5", 5).status, 200);
    // Addresses before the one that the proxy saw are not trusted.
    assert_limited(&read("6.6.6.6, 1.2.3.5", 5), "address");
    assert_eq!(read("1.2.3.6", 5).status, 200);
    for _ in 0..4 {
        assert_eq!(read("1.2.3.9", 5).status, 200, "the address is exempt");
    }
}

#[test]
fn a_trusted_proxy_without_a_client_address_is_limited_itself() {
    let server = Server::start();
    // Both networks are exempt, and both are trusted proxies.
    let config = limit("address", 5)
        + "exempt = [\"127.0.0.0/8\", \"10.0.0.0/8\"]\ntrusted_proxies = [\"127.0.0.0/8\", \"10.0.0.0/8\"]\n"
        + "user = { per_second = 1, burst = 3 }\n";
    let countd = Countd::start(&server, &config);
    let api = countd.api();
    let read = |headers: &[(&str, &str)]| {
        let items = vec![json!({ "etype": "note", "eid": 1 }); 5];
        api.request("/counter/batch", headers, Some(&json!({ "items": items })))
    };
    let assert_share_one_limit = |all: &[&[(&str, &str)]]| {
        assert_eq!(read(all[0]).status, 200);
        for headers in all {
            assert_limited(&read(headers), "address");
        }
    };
    assert_share_one_limit(&[
        &[],
        &[("x-forwarded-for", "")],
        &[("x-forwarded-for", "unknown")],
        &[("x-forwarded-for", "1.2.3.4, nonsense")],
        &[("x-forwarded-for", "1.2.3.4;")],
        &[("x-forwarded-for", "\u{e9}")],
        &[
            ("x-forwarded-for", "1.2.3.4"),
            ("x-forwarded-for", "_hidden"),
        ],
        &[("forwarded", "for=1.2.3.4")],
    ]);
    // Neither does the proxy behind it.
    assert_share_one_limit(&[
        &[("x-forwarded-for", "10.0.0.1")],
        &[("x-forwarded-for", "unknown, 10.0.0.1")],
    ]);
    assert_eq!(read(&[("x-forwarded-for", "1.2.3.4")]).status, 200);
    // Its envelopes count against the limits of their users.
    let envelopes: Vec<Json> = (1..=4).map(|id| read_of(id, 42)).collect();
    let from = |address| {
        let headers = [("x-forwarded-for", address)];
        api.request("/events", &headers, Some(&json!(envelopes)))
    };
    assert_eq!(
        from("10.0.0.2").status,
        413,
        "more than the burst of a user"
    );
}

#[test]
fn each_device_has_a_limit() {
    let server = Server::start();
    let countd = Countd::start(&server, &limit("device", 5));
    let api = countd.api();
    let like = |eid: u64, device: &[(&str, &str)]| {
        api.request("/action/like", device, Some(&on_note(eid, eid)))
    };
    let (since, mut granted) = (Instant::now(), 0);
    for eid in 0..20 {
        let response = like(eid, &[("X-Device-Id", "phone")]);
        match response.status {
            200 => granted += 1,
            _ => assert_limited(&response, "device"),
        }
    }
    assert_granted_within(granted, 5, since);
    assert_eq!(like(50, &[("x-device-id", "tablet")]).status, 200);
    assert!(
        (0..20).all(|eid| like(eid, &[]).status == 200),
        "no device, no limit"
    );
}

#[test]
fn limits_can_be_turned_off() {
    let server = Server::start();
    let off = "{ per_second = 0, burst = 1 }";
    let config = format!("[limits]\naddress = {off}\ndevice = {off}\nuser = {off}\nexempt = []\n");
    let countd = Countd::start(&server, &config);
    let api = countd.api();
    let device = [("x-device-id", "phone")];
    assert!((0..50).all(|eid| {
        api.request("/action/like", &device, Some(&on_note(eid, 42)))
            .status
            == 200
    }));
    assert_eq!(server.client().run("KEYS act:limit:*"), "(empty array)");
}
