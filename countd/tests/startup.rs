//! A server in cluster mode does not serve its slots immediately after its start: countd waits until it does.

use crate::support::{Countd, Settings, on_note, one_node_cluster, set_schema};
use countint_tests::Server;
use std::thread;
use std::time::Duration;

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

#[test]
fn countd_waits_until_all_slots_are_served() {
    let server = Server::builder().config("cluster-enabled yes").start();
    let mut client = server.client();
    let assigned = thread::spawn(move || {
        for slots in ["0 100", "101 16383"] {
            thread::sleep(Duration::from_millis(700));
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
