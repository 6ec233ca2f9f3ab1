//! End to end: concurrent clients act, and the result matches a model in memory, also while processes are killed.

use crate::support::invariants::assert_invariants;
use crate::support::stores::{
    TestStore, cluster, module, move_days_back, plain, wait_until_compacted,
};
use crate::support::verify::assert_matches_model;
use crate::support::workload::{self, Random, WorkloadSize, run_clients};
use crate::support::{Countd, Settings, printed, run, set_schema, wait_until_drained};
use countint_tests::Server;
use std::thread;
use std::time::Duration;

/// The full size: fifty clients, two hundred thousand actions.
pub const FULL: WorkloadSize = WorkloadSize {
    clients: 50,
    users: 10,
    notes: 400,
    actions_per_client: 4_000,
    batch: 50,
    erasures: 2,
};
/// A limit of users that is checked but never reached.
pub const LIMITS: &str = "[limits]\nuser = { per_second = 100000, burst = 1000000 }\n";

#[test]
fn the_result_of_fifty_clients_matches_the_model() {
    let server = Server::start();
    let config = format!("{LIMITS}{}", workload::metrics());
    let countd = Countd::start(&server, &config);
    let model = run_clients(&[countd.api()], 1, FULL, |_| {});
    wait_until_drained(&server, 1024);
    assert_matches_model(&countd.api(), &model, FULL);
    assert_invariants(&server, &config);
    assert_eq!(printed(&run(&server, "", &["dead", "list"])), "");
}

/// The metrics of the default configuration, with other fact stores.
pub fn other_fact_stores() -> String {
    with_other_fact_stores(&workload::metrics())
}

/// These metrics with other fact stores.
pub fn with_other_fact_stores(metrics: &str) -> String {
    let mut config =
        format!("[facts]\ncompaction_interval_seconds = 1\ndays = 1\nshards = 3\n{metrics}");
    for (metric, fact_store) in [
        ("like", "daily"),
        ("fav", "bitmap"),
        ("follow", "sharded"),
        ("publish", "daily"),
    ] {
        let table = format!("[metrics.{metric}]\n");
        assert!(config.contains(&table), "{config}");
        config = config.replace(&table, &format!("{table}facts = \"{fact_store}\"\n"));
    }
    // Timelines with few times: older facts move on.
    for (metric, more) in [
        ("like", "order = \"time\"\nlatest = 20\n"),
        ("fav", "latest = 3\n"),
    ] {
        let table = format!("[metrics.{metric}]\n");
        config = config.replace(&table, &format!("{table}{more}"));
    }
    config
}

#[test]
fn single_actions_match_the_model() {
    assert_single_actions_match_the_model(&module(), &workload::metrics());
}

#[test]
fn single_actions_match_the_model_without_the_module() {
    assert_single_actions_match_the_model(&plain(), &workload::metrics());
}

#[test]
fn single_actions_match_the_model_with_other_fact_stores() {
    assert_single_actions_match_the_model(&module(), &other_fact_stores());
}

fn assert_single_actions_match_the_model(TestStore { server, .. }: &TestStore, config: &str) {
    let config = &format!("{LIMITS}{config}");
    let countd = Countd::start(server, config);
    let size = WorkloadSize {
        clients: 10,
        users: 10,
        notes: 100,
        actions_per_client: 300,
        batch: 1,
        erasures: 2,
    };
    let model = run_clients(&[countd.api()], 2, size, |_| {});
    wait_until_drained(server, 1024);
    assert_matches_model(&countd.api(), &model, size);
    assert_invariants(server, config);
}

#[test]
fn actions_count_once_when_processes_are_killed() {
    assert_actions_count_once_under_kills(module(), &workload::metrics(), FULL);
}

/// Enough for a few kills of each process.
pub const FEW: WorkloadSize = WorkloadSize {
    clients: 8,
    users: 20,
    notes: 200,
    actions_per_client: 1_500,
    batch: 25,
    erasures: 2,
};

#[test]
fn actions_count_once_when_processes_are_killed_in_cluster_mode() {
    assert_actions_count_once_under_kills(cluster(), &workload::metrics(), FEW);
}

/// Days of facts pass and are compacted meanwhile.
#[test]
fn actions_count_once_when_processes_are_killed_with_other_fact_stores() {
    assert_actions_count_once_under_kills(cluster(), &other_fact_stores(), FEW);
}

#[test]
fn actions_count_once_when_processes_are_killed_without_the_module() {
    assert_actions_count_once_under_kills(plain(), &other_fact_stores(), FEW);
}

/// The number of kills of each of the three countds, and of Redis.
const KILLS: u64 = 5;

fn assert_actions_count_once_under_kills(mut store: TestStore, metrics: &str, size: WorkloadSize) {
    let config = format!(
        "{LIMITS}[log]\npartitions = 16\nretain = 100\n[consumer]\nlinger_ms = 5\nbatch = 50\nsession_timeout_ms = 500\n{metrics}"
    );
    let config = &config;
    set_schema(&store.server, config);
    let settings = |command| Settings { command, config };
    let mut processes =
        ["serve", "consume", "all"].map(|command| Countd::with(&store.server, &settings(command)));
    // Two processes serve, and two consume.
    let apis = [processes[0].api(), processes[2].api()];
    let mut random = Random(3);
    let model = run_clients(&apis, 3, size, |progress| {
        let slice = size.total() / (4 * KILLS);
        for kill in 0..4 * KILLS {
            // At a random point in its slice, so that the kills are spread over all actions.
            progress.wait_for(kill * slice + random.below(slice));
            thread::sleep(Duration::from_millis(random.below(30)));
            // The processes are killed in turn.
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
    // A user compacted between two pages can be on both.
    wait_until_compacted(&store, 16);
    assert_matches_model(&apis[0], &model, size);
    assert_invariants(&store.server, config);
    assert_eq!(printed(&run(&store.server, config, &["dead", "list"])), "");
}
