//! End to end: many clients act at the same time, and everything comes out as a plain model in memory says; also when processes
//! are killed all the while.

use crate::support::workload::{Model, Random, Size, client, compare};
use crate::support::{Api, Countd, Settings, printed, run, set_schema, wait_until_drained};
use countint_tests::{Server, reply, wait_until};
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

#[test]
fn the_same_one_request_at_a_time() {
    let server = Server::start();
    let countd = Countd::start(&server, "");
    let size = Size {
        clients: 10,
        users: 10,
        notes: 100,
        requests: 300,
        actions: 1,
    };
    let model = play(&countd.api(), 2, size, || {});
    wait_until_drained(&server, 1024);
    compare(&countd.api(), &model, size);
}

/// The same server in cluster mode, with all slots: every key that a step touches is in one slot, or the server refuses it, and
/// users' counters go through the outbox.
fn one_node_cluster() -> Server {
    let server = Server::builder()
        .config("cluster-enabled yes")
        .append_only(true)
        .start();
    let mut client = server.client();
    client.ok("CLUSTER ADDSLOTSRANGE 0 16383");
    wait_until("the cluster is up", || {
        reply::text(client.ok("CLUSTER INFO")).contains("cluster_state:ok")
    });
    server
}

#[test]
fn nothing_is_lost_or_counted_twice_on_a_server_in_cluster_mode() {
    killed_at_random(one_node_cluster());
}

#[test]
fn nothing_is_lost_or_counted_twice_when_processes_are_killed() {
    killed_at_random(Server::builder().append_only(true).start());
}

fn killed_at_random(mut server: Server) {
    let config = "[log]\npartitions = 16\nretain = 100\n[consumer]\nlinger_ms = 5\nbatch = 50\ndead_after_ms = 500\n";
    set_schema(&server, config);
    let settings = |command| Settings { command, config };
    let mut processes =
        ["serve", "consume", "all"].map(|command| Countd::with(&server, &settings(command)));
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
                    server.kill();
                    server.start_again();
                }
                process => {
                    processes[process].kill();
                    processes[process].launch();
                }
            }
        }
    });
    wait_until_drained(&server, 16);
    compare(&api, &model, size);
    assert_eq!(printed(&run(&server, config, &["dead", "list"])), "");
}
