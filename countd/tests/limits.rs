//! Rate limits: only clients above their limit are refused.

use crate::support::{
    Api, Countd, Response, Settings, metric, on_note, one_node_cluster, set_schema,
    wait_until_drained, with,
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
    let config = limit("user", burst);
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

fn read_of(event_id: u64, uid: u64) -> Json {
    json!({
        "event_id": event_id, "event_type": "read", "aggregate_type": "note", "aggregate_id": "1",
        "payload": { "uid": uid, "delta": 1 },
    })
}

#[test]
fn envelopes_count_against_the_limits_of_their_users_or_none_is_appended() {
    let server = Server::start();
    let config = limit("user", 20) + "exempt = []\n";
    let countd = Countd::start(&server, &config);
    let api = countd.api();
    let mut last = 0;
    let mut send = |of: &[(u64, usize)]| {
        let uids = of.iter().flat_map(|(uid, count)| vec![*uid; *count]);
        let envelopes: Vec<Json> = uids
            .map(|uid| {
                last += 1;
                read_of(last, uid)
            })
            .collect();
        api.request("/events", &[], Some(&json!(envelopes)))
    };
    assert_eq!(send(&[(42, 15), (43, 15)]).status, 200);
    let refused = send(&[(44, 15), (42, 15)]);
    assert_limited(&refused, "user");
    // At least ten are too many, and one is granted each second.
    assert!(refused.retry_after > Some(3), "{:?}", refused.retry_after);
    assert_eq!(
        send(&[(44, 20)]).status,
        200,
        "the refused request cost nothing"
    );
    assert_eq!(send(&[(45, 21)]).status, 413, "more than the burst");
    assert_limited_soon(|| like(&api, 1, 44));
    wait_until_drained(&server, 1024);
    assert_eq!(api.counts(1)["read"], 50);
}

#[test]
fn user_limits_do_not_apply_to_a_relay_with_an_exempt_address() {
    let server = Server::start();
    // This machine is exempt by default.
    let countd = Countd::start(&server, &limit("user", 5));
    let api = countd.api();
    let envelopes: Vec<Json> = (1..=100).map(|id| read_of(id, 42)).collect();
    for envelopes in envelopes.chunks(50) {
        let response = api.request("/events", &[], Some(&json!(envelopes)));
        assert_eq!(response.status, 200, "{}", response.json);
    }
    assert_eq!(
        like(&api, 1, 42).status,
        200,
        "the envelopes did not count against the user"
    );
    wait_until_drained(&server, 1024);
    assert_eq!(api.counts(1)["read"], 100);
}

#[test]
fn requests_succeed_when_limits_cannot_be_checked() {
    let server = Server::start();
    let countd = Countd::start(&server, &limit("user", 5));
    let api = countd.api();
    api.act("like", on_note(1, 42));
    wait_until_drained(&server, 1024);
    server.client().ok("CONFIG SET maxmemory 1");
    for _ in 0..20 {
        let status = api.ok(api.get("/status/note/1?uid=42&metrics=like"));
        assert_eq!(status["status"]["like"], true);
    }
    assert!(metric(&api, "countd_limit_failures_total") >= 20);
}

/// The parameters of a structured header, such as `r` of `"user";r=9;t=1`.
fn parameter(header: &str, scope: &str, name: &str) -> u64 {
    let item = header
        .split(", ")
        .find(|item| item.starts_with(&format!("\"{scope}\";")));
    let item = item.unwrap_or_else(|| panic!("no {scope}: {header}"));
    let value = item
        .split(';')
        .find_map(|part| part.strip_prefix(&format!("{name}=")));
    let value = value.unwrap_or_else(|| panic!("no {name}: {header}"));
    value.parse().expect("a number")
}

#[test]
fn responses_tell_what_is_left_of_the_limits() {
    let server = Server::start();
    // No item comes back during the test, unless it takes longer than an hour.
    let config = "[limits]\nexempt = []\naddress = { per_second = 10, burst = 1000000 }\n\
                  device = { per_second = 1, burst = 3000 }\nuser = { per_second = 1, burst = 4000 }\n";
    set_schema(&server, config);
    let command = "serve";
    let countd = Countd::with(&server, &Settings { command, config });
    let api = countd.api();
    let address = api.request("/counter/note/1", &[], None);
    let policy = address.header("ratelimit-policy");
    assert_eq!(policy, "\"address\";q=1000000;w=100000");
    assert!(parameter(address.header("ratelimit"), "address", "r") >= 999_999);
    let device = [("x-device-id", "d")];
    let read = api.request("/counter/note/1", &device, None);
    let policy = read.header("ratelimit-policy");
    assert_eq!(parameter(policy, "device", "q"), 3_000);
    assert_eq!(parameter(policy, "device", "w"), 3_000);
    // The limit with the least remaining is reported.
    let left = parameter(read.header("ratelimit"), "device", "r");
    assert_eq!(left, 2_999);
    let items: Vec<Json> = (0..500)
        .map(|eid| json!({ "etype": "note", "eid": eid.to_string() }))
        .collect();
    let feed = json!({ "uid": "42", "items": items });
    let mut before = u64::MAX;
    for _ in 0..3 {
        let page = api.request("/feed", &[], Some(&feed));
        assert_eq!(page.status, 200, "{}", page.json);
        let policy = page.header("ratelimit-policy");
        assert_eq!(parameter(policy, "user", "q"), 4_000);
        assert_eq!(parameter(policy, "user", "w"), 4_000);
        let left = parameter(page.header("ratelimit"), "user", "r");
        assert!(left < before && left <= 3_500, "{left}");
        assert!(parameter(page.header("ratelimit"), "user", "t") >= 500);
        before = left;
    }
    let mut pages = (0..20).map(|_| api.request("/feed", &[], Some(&feed)));
    let refused = pages.find(|page| page.status != 200).expect("a refusal");
    assert_limited(&refused, "user");
    assert!(parameter(refused.header("ratelimit"), "user", "r") < 500);
    for path in ["/healthz", "/openapi.json"] {
        let response = api.request(path, &[], None);
        assert_eq!(response.header("ratelimit"), "", "{path}");
    }
}

#[test]
fn devices_share_their_limit_on_request() {
    for (server, shared) in [
        (Server::start(), true),
        (one_node_cluster(), true),
        (Server::start(), false),
    ] {
        let config =
            format!("[limits]\ndevice = {{ per_second = 1, burst = 40, shared = {shared} }}\n");
        set_schema(&server, &config);
        let start = || {
            let command = "serve";
            let config = &config;
            Countd::with(&server, &Settings { command, config })
        };
        let processes = [start(), start()];
        let (since, mut granted) = (Instant::now(), 0);
        let device = [("x-device-id", "a device: any bytes \u{fc}")];
        for request in 0..120 {
            let api = processes[request % 2].api();
            let response = api.request("/counter/note/1", &device, None);
            match response.status {
                200 => granted += 1,
                _ => assert_limited(&response, "device"),
            }
        }
        match shared {
            true => assert_granted_within(granted, 40, since),
            false => assert!(granted >= 80, "{granted}"),
        }
        // A page needs one item per entity.
        let items = json!([{ "etype": "note", "eid": "1" }]).as_array().cloned();
        let items: Vec<Json> = items.into_iter().flatten().cycle().take(30).collect();
        let page = Some(json!({ "items": items }));
        let send = |device: &str| {
            let headers = [("x-device-id", device)];
            processes[0]
                .api()
                .request("/counter/batch", &headers, page.as_ref())
        };
        assert_eq!(send("another").status, 200);
        assert_limited(&send("another"), "device");
        let keys = server.client().run("KEYS act:limit:d:*");
        assert_eq!(keys != "(empty array)", shared, "{keys}");
        assert!(
            !keys.contains("another"),
            "device names are not stored: {keys}"
        );
    }
}
