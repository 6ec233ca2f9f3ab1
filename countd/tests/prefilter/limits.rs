//! The prefilter with the default limits of users: only statuses that are read from Redis are charged.

use super::{answers, has, wait_until_built};
use crate::limits::assert_limited;
use crate::support::{Countd, Settings, on_note, set_schema};
use countint_tests::{Client, Server, wait_until};
use serde_json::{Value as Json, json};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const CONFIG: &str = "[log]\npartitions = 8\n[consumer]\nlinger_ms = 5\n[http]\nmax_connections = 64\n\
    [prefilter]\nenabled = true\n[hot]\nenabled = false\n";
/// The clients of a flood, and the made-up users of each.
const CLIENTS: u64 = 8;
const USERS: u64 = 50;
/// The statuses of each of these users: a page, and single ones.
const PAGE: u64 = 100;
const SINGLE: u64 = 5;
const STATUSES: u64 = CLIENTS * USERS * (PAGE + SINGLE);

fn start(server: &Server) -> Countd {
    set_schema(server, CONFIG);
    let (command, config) = ("serve", CONFIG);
    Countd::with(server, &Settings { command, config })
}

/// A request for the statuses of a user on notes.
fn page(uid: u64, notes: RangeInclusive<u64>) -> Json {
    let items = notes.map(|eid| json!({ "etype": "note", "eid": eid }));
    json!({ "uid": uid, "items": items.collect::<Vec<_>>(), "metrics": ["like"] })
}

/// The number of users who were charged in Redis: the script of the limits executes `SET`, and nothing else of `countd
/// serve` does without reports of hot entities.
fn charges(client: &mut Client) -> u64 {
    let stats = client.info("commandstats");
    let calls = stats
        .get("cmdstat_set")
        .and_then(|stat| stat.split(',').next()?.strip_prefix("calls="));
    calls.map_or(0, |calls| calls.parse().expect("a number"))
}

#[test]
fn a_flood_of_statuses_of_users_who_never_acted_is_not_charged() {
    let server = Server::start();
    let countd = start(&server);
    let (api, mut client) = (countd.api(), server.client());
    api.act("like", on_note(1, 1));
    assert!(charges(&mut client) > 0, "an action is charged");
    wait_until_built(&api);
    // Each user is new, so that nothing was acquired in advance.
    let next = AtomicU64::new(1_000_000);
    wait_until("a flood is not charged", || {
        let (answers_before, before) = (answers(&api), charges(&mut client));
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    let api = countd.api();
                    for _ in 0..USERS {
                        let uid = next.fetch_add(1, Ordering::SeqCst);
                        let page = api.ok(api.post("/status/batch", &page(uid, 1..=PAGE)));
                        let items = page["items"].as_array().expect("a list");
                        assert!(items.iter().all(|item| item["status"]["like"] == false));
                        for eid in 1..=SINGLE {
                            assert!(!has(&api, eid, uid));
                        }
                    }
                });
            }
        });
        let answered = answers(&api) - answers_before;
        // The rest are false positives, and requests that have waited too long.
        let (charged, rest) = (charges(&mut client) - before, STATUSES - answered);
        assert!(
            charged <= rest,
            "{charged} charges for {rest} statuses from Redis"
        );
        100 * answered >= 99 * STATUSES
    });
    // As many of one user are not refused, either.
    for _ in 0..30 {
        api.ok(api.post("/status/batch", &page(7, 1..=PAGE)));
    }
}

#[test]
fn statuses_of_users_who_acted_are_limited() {
    let server = Server::start();
    let countd = start(&server);
    let api = countd.api();
    wait_until_built(&api);
    // A user with few facts is charged for the entities that have them only, not for 30 pages of 100.
    for eid in 1..=3 {
        api.act("like", on_note(eid, 8));
    }
    for _ in 0..30 {
        let statuses = api.ok(api.post("/status/batch", &page(8, 1..=PAGE)));
        let items = statuses["items"].as_array().expect("a list");
        let liked = items.iter().filter(|item| item["status"]["like"] == true);
        assert_eq!(liked.count(), 3);
    }
    // A user who likes all entities of a page is charged for all of them.
    for eid in 1..=500 {
        api.act("like", on_note(eid, 7));
    }
    let liked = page(7, 1..=500);
    let mut responses = (0..50).map(|_| api.request("/status/batch", &[], Some(&liked)));
    let refused = responses.find(|response| response.status != 200);
    assert_limited(&refused.expect("fifty pages were granted"), "user");
    // A status that the filter answers is not refused. A false positive, or one that has waited too long, may be.
    let answered = (1_001..=1_020).filter(|eid| {
        let path = format!("/status/note/{eid}?uid=7&metrics=like");
        api.get(&path).0 == 200
    });
    assert!(answered.count() >= 15);
}

/// A page that can never be granted is refused also if the filter would answer it.
#[test]
fn a_page_above_the_burst_of_a_user_is_refused() {
    let server = Server::start();
    let config =
        "[limits]\nuser = { per_second = 1000, burst = 400 }\n[prefilter]\nenabled = true\n";
    set_schema(&server, config);
    let command = "serve";
    let countd = Countd::with(&server, &Settings { command, config });
    let api = countd.api();
    wait_until_built(&api);
    assert_eq!(api.post("/status/batch", &page(9, 1..=401)).0, 413);
    api.ok(api.post("/status/batch", &page(9, 1..=400)));
}
