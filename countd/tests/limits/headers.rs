//! `RateLimit` headers, and limits of devices that processes share.

use super::{assert_granted_within, assert_limited};
use crate::support::stores::cluster;
use crate::support::{Countd, Settings, set_schema};
use countint_tests::Server;
use serde_json::{Value as Json, json};
use std::time::Instant;

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
        (cluster().server, true),
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
