//! A server in cluster mode does not serve its slots immediately after its start: countd waits until it does.

use crate::support::{Countd, Settings, on_note, one_node_cluster, set_schema};
use countint_tests::{Client, Server, wait_until};
use std::thread;

fn start(server: &Server) -> Countd {
    let (command, config) = ("all", "");
    Countd::with(server, &Settings { command, config })
}

#[test]
fn countd_waits_for_a_restarted_server() {
    let mut server = one_node_cluster();
    set_schema(&server, "");
    server.kill();
    server.start_again();
    let countd = start(&server);
    assert_eq!(countd.api().act("like", on_note(1, 42))["count"], 1);
}

/// How often countd has asked which node serves which slots.
fn attempts(client: &mut Client) -> u64 {
    let stats = client.info("commandstats");
    let calls = stats
        .get("cmdstat_cluster|slots")
        .and_then(|stats| stats.strip_prefix("calls=")?.split(',').next());
    calls.map_or(0, |calls| calls.parse().expect("a number"))
}

#[test]
fn countd_waits_until_all_slots_are_served() {
    let server = Server::builder().config("cluster-enabled yes").start();
    let mut client = server.client();
    let assigned = thread::spawn(move || {
        for slots in ["0 100", "101 16383"] {
            // Once for the attempt that has seen the slots as they are, and once for the attempt after it.
            let before = attempts(&mut client);
            wait_until("countd has tried to connect", || {
                attempts(&mut client) >= before + 2
            });
            client.ok(&format!("CLUSTER ADDSLOTSRANGE {slots}"));
        }
    });
    let countd = start(&server);
    assigned.join().expect("all slots are assigned");
    let log = countd.log();
    assert!(log.contains("no connection to Redis yet"), "{log}");
    assert!(log.contains("have no master"), "{log}");
    assert_eq!(countd.api().get("/healthz").0, 200);
}
