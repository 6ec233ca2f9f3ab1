//! Limits of the users of envelopes, and limits that cannot be checked.

use super::{assert_limited, assert_limited_soon, like, limit, read_of};
use crate::support::{Countd, metric, on_note, wait_until_drained};
use countint_tests::Server;
use serde_json::{Value as Json, json};

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
