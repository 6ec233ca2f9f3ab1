//! A flood of status queries: countd refuses it without a round trip to Redis, and other users are not affected.

use crate::limits::{assert_granted_within, assert_limited, limit};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::workload::StopOnDrop;
use crate::support::{Api, Countd, Settings, metric, on_note, set_schema};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// The burst of each user.
const BURST: u64 = 100;
/// The users who flood, and the number of connections of each.
const FLOODERS: [u64; 2] = [1, 2];
const CONNECTIONS: u64 = 2;
/// The minimum number of refused requests of each connection.
const REFUSED: u64 = 1_000;
/// The number of entities in a batch query.
const PAGE: u64 = 7;

for_each_store! {
    [module cluster]
    a_flood_is_refused_by_countd_and_other_users_are_served
    a_status_of_an_unknown_entity_is_one_lookup
}

/// One connection of the flood: single and batch queries in turn. Returns the number of granted items and of refused requests.
fn flood(api: &Api, uid: u64, stop: &AtomicBool) -> (u64, u64) {
    let single = format!("/status/note/1?uid={uid}&metrics=like");
    let items = vec![json!({ "etype": "note", "eid": 1 }); PAGE as usize];
    let page = json!({ "uid": uid, "items": items, "metrics": ["like"] });
    let (mut granted, mut refused) = (0, 0);
    while !stop.load(Relaxed) || refused < REFUSED {
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

/// Two hundred other users query a status each. All succeed. Returns the sorted latencies.
fn query_as_others(api: &Api) -> Vec<Duration> {
    let mut latencies: Vec<Duration> = (100..300)
        .map(|uid| {
            let since = Instant::now();
            let response =
                api.request(&format!("/status/note/1?uid={uid}&metrics=like"), &[], None);
            assert_eq!(response.status, 200, "user {uid}: {}", response.json);
            assert_eq!(response.json["status"]["like"], false);
            since.elapsed()
        })
        .collect();
    latencies.sort_unstable();
    latencies
}

fn a_flood_is_refused_by_countd_and_other_users_are_served(store: TestStore) {
    // The scripts of the monitor would be counted, too.
    let config = limit("user", BURST) + "[monitor]\ninterval_seconds = 0\n";
    set_schema(&store.server, &config);
    let (command, config) = ("serve", config.as_str());
    let countd = Countd::with(&store.server, &Settings { command, config });
    let api = countd.api();
    let since = Instant::now();
    for uid in FLOODERS {
        api.act("like", on_note(1, uid));
    }
    let latencies_before = query_as_others(&api);
    store.server.client().ok("CONFIG RESETSTAT");
    let stop = AtomicBool::new(false);
    let (granted, refused, latencies) = thread::scope(|scope| {
        let stopping = StopOnDrop(&stop);
        let flood: Vec<_> = FLOODERS
            .iter()
            .flat_map(|uid| vec![uid; CONNECTIONS as usize])
            .map(|uid| {
                let (api, stop) = (countd.api(), &stop);
                scope.spawn(move || flood(&api, *uid, stop))
            })
            .collect();
        let latencies = query_as_others(&api);
        drop(stopping);
        let each: Vec<(u64, u64)> = flood
            .into_iter()
            .map(|one| one.join().expect("it ends"))
            .collect();
        for connections in each.chunks(CONNECTIONS as usize) {
            // The like is one of the granted items.
            let granted = connections.iter().map(|(granted, _)| granted).sum::<u64>() + 1;
            assert_granted_within(granted, BURST, since);
        }
        let sum = |of: fn(&(u64, u64)) -> u64| each.iter().map(of).sum::<u64>();
        (sum(|one| one.0), sum(|one| one.1), latencies)
    });
    let seconds = since.elapsed().as_secs() + 1;

    // Refused queries did not reach Redis, and no other user was refused.
    // A request reads its items with one command.
    let reads = store.calls_of("rbm.page");
    let max_reads = granted + latencies.len() as u64;
    assert!(
        (1..=max_reads).contains(&reads),
        "{reads} of {max_reads} reads"
    );
    assert_eq!(
        metric(&api, "countd_limited_total{scope=\"user\"}"),
        refused
    );
    assert_eq!(metric(&api, "countd_limit_failures_total"), 0);
    // Redis runs the limit's script for other users, for granted items, and once for each connection when items may be granted again.
    let scripts = store.calls_of("evalsha");
    let connections = FLOODERS.len() as u64 * CONNECTIONS;
    let max_scripts = latencies.len() as u64 + granted + 2 * connections * (seconds + 1);
    assert!(scripts <= max_scripts, "{scripts} of {max_scripts} scripts");
    assert!(refused >= connections * REFUSED);

    let percentile = |sorted: &[Duration], p: usize| sorted[(sorted.len() - 1) * p / 100];
    eprintln!(
        "{refused} requests refused, {granted} items granted, {scripts} scripts for limits; others waited {:?} \
         (p99 {:?}) beside the flood, {:?} (p99 {:?}) without",
        percentile(&latencies, 50),
        percentile(&latencies, 99),
        percentile(&latencies_before, 50),
        percentile(&latencies_before, 99),
    );
}

fn a_status_of_an_unknown_entity_is_one_lookup(store: TestStore) {
    let server = &store.server;
    let config = "[limits.user]\nper_second = 0\n";
    set_schema(server, config);
    let command = "serve";
    let countd = Countd::with(server, &Settings { command, config });
    let mut client = server.client();
    let mut lookup = |note: u64| {
        client.ok("CONFIG RESETSTAT");
        let path = format!("/status/note/{note}?uid=42&metrics=like");
        let status = countd.api().ok(countd.api().get(&path));
        assert_eq!(status["status"], json!({ "like": false }));
        let stats = server
            .nodes()
            .map(|node| node.client().info("commandstats"));
        let mut commands: BTreeSet<String> = stats.flat_map(BTreeMap::into_keys).collect();
        commands.retain(|name| !name.starts_with("cmdstat_config"));
        commands
    };
    // Once a second, the process compares the epoch, registers itself and inspects the logs. Another entity is not cached.
    let of_the_heartbeat = |name: &String| {
        let others = ["cmdstat_evalsha", "cmdstat_hget", "cmdstat_xinfo|stream"];
        let all = ["cmdstat_time", "cmdstat_zadd", "cmdstat_zrange"];
        others.iter().chain(&all).any(|other| name == other)
    };
    let commands = (900..950)
        .map(&mut lookup)
        .find(|commands| !commands.iter().any(of_the_heartbeat));
    let expected = BTreeSet::from(["cmdstat_rbm.page".to_owned()]);
    assert_eq!(commands, Some(expected));
}
