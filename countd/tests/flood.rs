//! A flood of status queries, by those who did like it: it ends in countd, and others do not notice.

use crate::limits::{assert_granted_within, assert_limited, limit};
use crate::support::{Api, Countd, Settings, metric, on_note, set_schema};
use countint_tests::{Client, Server};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// What each who floods may do at once.
const BURST: u64 = 100;
/// Users who flood, and each on how many connections.
const FLOODERS: [u64; 2] = [1, 2];
const CONNECTIONS: u64 = 2;
/// So many requests of each connection are refused at least.
const REFUSED: u64 = 1_000;
/// Entities in a question for a page.
const PAGE: u64 = 7;

/// How often Redis ran a command.
fn calls(client: &mut Client, command: &str) -> u64 {
    let stats = client.info("commandstats");
    let Some(line) = stats.get(&format!("cmdstat_{command}")) else {
        return 0;
    };
    let calls = line
        .split(',')
        .find_map(|field| field.strip_prefix("calls="));
    calls.expect("a number of calls").parse().expect("a number")
}

/// One connection of the flood: single questions and pages in turn. How many items were answered, and how many requests not.
fn flood(api: &Api, uid: u64, enough: &AtomicBool) -> (u64, u64) {
    let single = format!("/status/note/1?uid={uid}&metrics=like");
    let items = vec![json!({ "etype": "note", "eid": 1 }); PAGE as usize];
    let page = json!({ "uid": uid, "items": items, "metrics": ["like"] });
    let (mut granted, mut refused) = (0, 0);
    while !enough.load(Relaxed) || refused < REFUSED {
        for (items, response) in [
            (1, api.request(&single, &[], None)),
            (PAGE, api.request("/status/batch", &[], Some(&page))),
        ] {
            if response.status == 200 {
                granted += items;
            } else {
                assert_limited(&response, "user");
                refused += 1;
            }
        }
    }
    (granted, refused)
}

/// Two hundred others ask for a status each. All are answered. How long each waited, in order.
fn query_as_others(api: &Api) -> Vec<Duration> {
    let mut waits: Vec<Duration> = (100..300)
        .map(|uid| {
            let since = Instant::now();
            let response =
                api.request(&format!("/status/note/1?uid={uid}&metrics=like"), &[], None);
            assert_eq!(response.status, 200, "user {uid}: {}", response.json);
            assert_eq!(response.json["status"]["like"], false);
            since.elapsed()
        })
        .collect();
    waits.sort_unstable();
    waits
}

#[test]
fn a_flood_of_one_user_ends_in_countd_and_others_are_answered() {
    let server = Server::start();
    let config = limit("user", BURST);
    set_schema(&server, &config);
    let (command, config) = ("serve", config.as_str());
    let countd = Countd::with(&server, &Settings { command, config });
    let api = countd.api();
    let mut client = server.client();
    let since = Instant::now();
    for uid in FLOODERS {
        api.act("like", on_note(1, uid));
    }
    let quiet = query_as_others(&api);
    client.ok("CONFIG RESETSTAT");
    let enough = AtomicBool::new(false);
    let (granted, refused, loud) = thread::scope(|scope| {
        let flood: Vec<_> = FLOODERS
            .iter()
            .flat_map(|uid| vec![uid; CONNECTIONS as usize])
            .map(|uid| {
                let (api, enough) = (countd.api(), &enough);
                scope.spawn(move || flood(&api, *uid, enough))
            })
            .collect();
        let loud = query_as_others(&api);
        enough.store(true, Relaxed);
        let each: Vec<(u64, u64)> = flood
            .into_iter()
            .map(|one| one.join().expect("it ends"))
            .collect();
        for connections in each.chunks(CONNECTIONS as usize) {
            // The like was one of them.
            let granted = connections.iter().map(|(granted, _)| granted).sum::<u64>() + 1;
            assert_granted_within(granted, BURST, since);
        }
        let sum = |of: fn(&(u64, u64)) -> u64| each.iter().map(of).sum::<u64>();
        (sum(|one| one.0), sum(|one| one.1), loud)
    });
    let seconds = since.elapsed().as_secs() + 1;

    // What was refused was not looked up, and nobody but the flood was refused.
    assert_eq!(
        calls(&mut client, "rbm.contains"),
        granted + loud.len() as u64
    );
    assert_eq!(metric(&api, "countd_limited_total{of=\"user\"}"), refused);
    assert_eq!(metric(&api, "countd_limit_failures_total"), 0);
    // Nor did Redis hear of it: it is asked for others, for what is granted, and by each connection when something may fit again.
    let asked = calls(&mut client, "evalsha");
    let connections = FLOODERS.len() as u64 * CONNECTIONS;
    let most = loud.len() as u64 + granted + 2 * connections * (seconds + 1);
    assert!(asked <= most, "{asked} of {most} scripts");
    assert!(refused >= connections * REFUSED);

    let at = |waits: &[Duration], part: usize| waits[(waits.len() - 1) * part / 100];
    eprintln!(
        "{refused} requests refused, {granted} items granted, {asked} scripts for limits; query_as_others waited {:?} \
         (p99 {:?}) beside the flood, {:?} (p99 {:?}) without",
        at(&loud, 50),
        at(&loud, 99),
        at(&quiet, 50),
        at(&quiet, 99),
    );
}

#[test]
fn a_status_of_an_unknown_entity_costs_one_lookup() {
    let server = Server::start();
    let config = "[limits.user]\nper_second = 0\n";
    set_schema(&server, config);
    let command = "serve";
    let countd = Countd::with(&server, &Settings { command, config });
    let mut client = server.client();
    client.ok("CONFIG RESETSTAT");
    let status = countd.api().get("/status/note/999?uid=42&metrics=like");
    assert_eq!(countd.api().ok(status)["status"], json!({ "like": false }));
    let mut commands: Vec<String> = client.info("commandstats").into_keys().collect();
    commands.retain(|name| !name.starts_with("cmdstat_config"));
    assert_eq!(commands, ["cmdstat_rbm.contains"]);
}
