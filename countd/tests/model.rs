//! End to end: many clients act at the same time, and everything comes out as a plain model in memory says; also when processes
//! are killed all the while.

use crate::support::workload::{Model, Random, Size, client, compare};
use crate::support::worlds::{World, age, cluster, module, plain, wait_until_folded};
use crate::support::{Api, Countd, Settings, printed, run, set_schema, wait_until_drained};
use countd::config::DEFAULTS;
use countint_tests::Server;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// Clients act until they have done their part and `meanwhile` is over.
pub fn play(api: &Api, seed: u64, size: Size, meanwhile: impl FnOnce()) -> Model {
    let enough = AtomicBool::new(false);
    let mut model = Model::default();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..size.clients)
            .map(|number| {
                let (api, enough) = (api.clone(), &enough);
                scope.spawn(move || client(&api, number, seed, size, enough))
            })
            .collect();
        meanwhile();
        enough.store(true, Relaxed);
        for client in clients {
            model.join(client.join().expect("a client ends"));
        }
    });
    model
}

#[test]
fn fifty_clients_and_two_hundred_thousand_actions() {
    let server = Server::start();
    let countd = Countd::start(&server, "");
    let size = Size {
        clients: 50,
        users: 10,
        notes: 1_500,
        requests: 80,
        actions: 50,
    };
    let model = play(&countd.api(), 1, size, || {});
    wait_until_drained(&server, 1024);
    compare(&countd.api(), &model, size);
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

fn one_request_at_a_time(World { server, .. }: &World, config: &str) {
    let countd = Countd::start(server, config);
    let size = Size {
        clients: 10,
        users: 10,
        notes: 100,
        requests: 300,
        actions: 1,
    };
    let model = play(&countd.api(), 2, size, || {});
    wait_until_drained(server, 1024);
    compare(&countd.api(), &model, size);
}

#[test]
fn nothing_is_lost_or_counted_twice_on_a_server_in_cluster_mode() {
    killed_at_random(cluster(), "");
}

#[test]
fn nothing_is_lost_or_counted_twice_when_processes_are_killed() {
    killed_at_random(module(), "");
}

/// Days pass meanwhile, and are folded.
#[test]
fn nothing_is_lost_or_counted_twice_with_facts_kept_in_other_ways() {
    killed_at_random(cluster(), &other_ways());
}

#[test]
fn nothing_is_lost_or_counted_twice_without_the_module() {
    killed_at_random(plain(), &other_ways());
}

fn killed_at_random(mut world: World, ways: &str) {
    let config = format!(
        "[log]\npartitions = 16\nretain = 100\n[consumer]\nlinger_ms = 5\nbatch = 50\ndead_after_ms = 500\n{ways}"
    );
    let config = &config;
    set_schema(&world.server, config);
    let settings = |command| Settings { command, config };
    let mut processes =
        ["serve", "consume", "all"].map(|command| Countd::with(&world.server, &settings(command)));
    let api = processes[0].api();
    let size = Size {
        clients: 8,
        users: 20,
        notes: 200,
        requests: 60,
        actions: 25,
    };
    let mut random = Random(3);
    let model = play(&api, 3, size, || {
        for kill in 0..16 {
            thread::sleep(Duration::from_millis(100 + random.below(300)));
            // Each in its turn, so that all of them have been killed.
            match kill % 4 {
                3 => {
                    world.server.kill();
                    world.server.start_again();
                }
                process => {
                    processes[process].kill();
                    age(&world, 16);
                    processes[process].launch();
                }
            }
        }
    });
    wait_until_drained(&world.server, 16);
    // A user who is folded between two pages may be on both.
    wait_until_folded(&world, 16);
    compare(&api, &model, size);
    assert_eq!(printed(&run(&world.server, config, &["dead", "list"])), "");
}
