//! End to end: many clients act at the same time, and everything comes out as a plain model in memory says; also when processes
//! are killed all the while.

use crate::support::stores::{
    TestStore, cluster, module, move_days_back, plain, wait_until_compacted,
};
use crate::support::verify::assert_matches_model;
use crate::support::workload::{Random, Size, run_clients};
use crate::support::{Countd, Settings, printed, run, set_schema, wait_until_drained};
use countd::domain::config::DEFAULTS;
use countint_tests::Server;
use std::thread;
use std::time::Duration;

/// What the issue of exactness is about: all that fifty clients do.
const FULL: Size = Size {
    clients: 50,
    users: 10,
    notes: 400,
    each: 4_000,
    batch: 50,
};
/// A user is not held up by his limit, which is there nevertheless.
const LIMITS: &str = "[limits]\nuser = { per_second = 100000, burst = 1000000 }\n";

#[test]
fn fifty_clients_and_two_hundred_thousand_actions() {
    let server = Server::start();
    let countd = Countd::start(&server, LIMITS);
    let model = run_clients(&[countd.api()], 1, FULL, |_| {});
    wait_until_drained(&server, 1024);
    assert_matches_model(&countd.api(), &model, FULL);
    assert_eq!(printed(&run(&server, "", &["dead", "list"])), "");
}

/// The metrics of the default configuration, with facts kept in other ways.
fn other_ways() -> String {
    let (_, metrics) = DEFAULTS.split_once("[metrics.read]").expect("metrics");
    let mut config =
        format!("[facts]\nfold_seconds = 1\ndays = 1\nshards = 3\n[metrics.read]{metrics}");
    for (metric, way) in [
        ("like", "daily"),
        ("fav", "bitmap"),
        ("follow", "sharded"),
        ("publish", "daily"),
    ] {
        let table = format!("[metrics.{metric}]\n");
        assert!(config.contains(&table), "{config}");
        config = config.replace(&table, &format!("{table}facts = \"{way}\"\n"));
    }
    config
}

#[test]
fn the_same_one_request_at_a_time() {
    one_request_at_a_time(&module(), "");
}

#[test]
fn the_same_without_the_module() {
    one_request_at_a_time(&plain(), "");
}

#[test]
fn the_same_with_facts_kept_in_other_ways() {
    one_request_at_a_time(&module(), &other_ways());
}

fn one_request_at_a_time(TestStore { server, .. }: &TestStore, config: &str) {
    let countd = Countd::start(server, &format!("{LIMITS}{config}"));
    let size = Size {
        clients: 10,
        users: 10,
        notes: 100,
        each: 300,
        batch: 1,
    };
    let model = run_clients(&[countd.api()], 2, size, |_| {});
    wait_until_drained(server, 1024);
    assert_matches_model(&countd.api(), &model, size);
}

/// The same as without kills: as many clients, as many actions.
#[test]
fn nothing_is_lost_or_counted_twice_when_processes_are_killed() {
    killed_at_random(module(), "", FULL);
}

/// Enough for a few kills of each process.
const FEW: Size = Size {
    clients: 8,
    users: 20,
    notes: 200,
    each: 1_500,
    batch: 25,
};

#[test]
fn nothing_is_lost_or_counted_twice_on_a_server_in_cluster_mode() {
    killed_at_random(cluster(), "", FEW);
}

/// Days pass meanwhile, and are folded.
#[test]
fn nothing_is_lost_or_counted_twice_with_facts_kept_in_other_ways() {
    killed_at_random(cluster(), &other_ways(), FEW);
}

#[test]
fn nothing_is_lost_or_counted_twice_without_the_module() {
    killed_at_random(plain(), &other_ways(), FEW);
}

/// So often each of the three countds is killed, and so often Redis.
const KILLS: u64 = 5;

fn killed_at_random(mut store: TestStore, ways: &str, size: Size) {
    let config = format!(
        "{LIMITS}[log]\npartitions = 16\nretain = 100\n[consumer]\nlinger_ms = 5\nbatch = 50\ndead_after_ms = 500\n{ways}"
    );
    let config = &config;
    set_schema(&store.server, config);
    let settings = |command| Settings { command, config };
    let mut processes =
        ["serve", "consume", "all"].map(|command| Countd::with(&store.server, &settings(command)));
    // Two that serve, two that count.
    let apis = [processes[0].api(), processes[2].api()];
    let mut random = Random(3);
    let model = run_clients(&apis, 3, size, |progress| {
        let slice = size.total() / (4 * KILLS);
        for kill in 0..4 * KILLS {
            // Somewhere in its slice of the actions, so that kills are spread over all of them.
            progress.wait_for(kill * slice + random.below(slice));
            thread::sleep(Duration::from_millis(random.below(30)));
            // Each in its turn, so that all of them have been killed.
            match (kill % 4) as usize {
                3 => {
                    store.server.kill();
                    store.server.start_again();
                }
                process => {
                    processes[process].kill();
                    move_days_back(&store, 16);
                    processes[process].launch();
                }
            }
        }
    });
    eprintln!("killed: countds {} times, Redis {KILLS} times", 3 * KILLS);
    wait_until_drained(&store.server, 16);
    // A user who is folded between two pages may be on both.
    wait_until_compacted(&store, 16);
    assert_matches_model(&apis[0], &model, size);
    assert_eq!(printed(&run(&store.server, config, &["dead", "list"])), "");
}
