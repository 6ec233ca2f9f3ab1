//! Random writes lead to the same data on the master, on replicas (after broken links, restarts and a failover) and in
//! the append-only file.

use crate::traffic::{Random, Stop, let_expire, write_randomly};
use crate::writes::registered;
use countint_tests::{Client, Server, Snapshot, wait_until};

/// The totals of `INFO countint`.
fn totals(client: &mut Client) -> Vec<u64> {
    let fields = [
        "cint_objects",
        "cint_fields",
        "ctab_objects",
        "ctab_rows",
        "rbm_objects",
        "rbm_members",
    ];
    let number = |field| client.info_number("countint", &format!("countint_{field}"));
    fields.map(number).to_vec()
}

/// Asserts that master and replica have equal data and equal totals.
fn assert_converged(master: &Server, replica: &Server, what: &str) {
    let mut client = master.client();
    let_expire(&mut client);
    master.wait_for_replica(replica);
    let mut its = replica.client();
    if client.digest() != its.digest() {
        Snapshot::take(&mut client).assert_same(&Snapshot::take(&mut its), what);
        panic!("{what}: the digests differ, what can be read does not");
    }
    // Lazy freeing may still be in progress.
    wait_until("the totals are the same", || {
        totals(&mut client) == totals(&mut its)
    });
}

#[test]
fn random_writes_reach_replica_and_append_only_file() {
    let mut master = Server::builder()
        .append_only(true)
        .config("appendfsync no")
        .start();
    let replica = Server::builder()
        .module_args("default-len 2")
        .replica_of(&master)
        .start();
    for seed in 0..12 {
        write_randomly(&mut master.client(), &mut Random(seed), 1500);
        assert_converged(&master, &replica, &format!("seed {seed}"));
    }
    assert_every_command_arrived(&master, &replica);
    let before = master.client().digest();
    // A clean shutdown, so that the file is complete.
    master.restart();
    assert_eq!(master.client().digest(), before, "after the replay");
}

/// Guards against a generator that leaves out a command.
fn assert_every_command_arrived(master: &Server, replica: &Server) {
    let stats = replica.client().info("commandstats");
    let master_stats = master.client().info("commandstats");
    for command in registered(&mut master.client(), "write") {
        let arrived = stats.contains_key(&format!("cmdstat_{command}"));
        if ["rbm.mark", "rbm.unmark", "rbm.mmark", "rbm.munmark"].contains(&command.as_str()) {
            assert!(!arrived, "{command} is replicated as its effects");
            let executed = &master_stats[&format!("cmdstat_{command}")];
            assert!(!executed.starts_with("calls=0,"), "no {command} was sent");
        } else {
            assert!(arrived, "no {command} has changed anything");
        }
    }
    assert!(stats.contains_key("cmdstat_xadd"), "no mark had an event");
    let mut client = master.client();
    for done in ["countint_marks", "countint_unmarks"] {
        assert!(client.info_number("countint", done) > 0, "{done}");
    }
}

#[test]
fn broken_link_loses_nothing() {
    let master = Server::start();
    let replica = master.replica();
    let (mut client, mut random) = (master.client(), Random(77));
    let full_before = client.info_number("stats", "sync_full");
    for round in 1..=4 {
        write_randomly(&mut client, &mut random, 300);
        client.ok("CLIENT KILL TYPE replica");
        write_randomly(&mut client, &mut random, 300);
        wait_until("the replica is back", || {
            client.info_number("stats", "sync_partial_ok") >= round
        });
        assert_converged(&master, &replica, &format!("round {round}"));
    }
    assert_eq!(client.info_number("stats", "sync_full"), full_before);
}

/// During the full synchronization it serves its old data.
#[test]
fn replica_serves_old_data_during_a_full_sync() {
    let master = Server::builder().config("repl-backlog-size 16kb").start();
    let replica = Server::builder()
        .config("repl-diskless-load swapdb")
        .replica_of(&master)
        .start();
    let (mut client, mut random) = (master.client(), Random(31));
    write_randomly(&mut client, &mut random, 1000);
    assert_converged(&master, &replica, "before");
    for round in 2..=3 {
        replica.signal("STOP");
        client.ok("CLIENT KILL TYPE replica");
        write_randomly(&mut client, &mut random, 3000);
        replica.signal("CONT");
        wait_until("the replica starts anew", || {
            client.info_number("stats", "sync_full") == round
        });
        assert_converged(&master, &replica, &format!("synchronization {round}"));
    }
    let loads = replica
        .log()
        .matches("Swapping active DB with loaded DB")
        .count();
    assert_eq!(loads, 3, "each synchronization, the first one too");
}

#[test]
fn killed_replica_catches_up() {
    let master = Server::start();
    let mut replica = master.replica();
    let stop = Stop::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut client, mut random) = (master.client(), Random(5));
            while !stop.is_set() {
                write_randomly(&mut client, &mut random, 100);
            }
        });
        let _stop = stop.on_drop();
        for with_snapshot in [false, true, false] {
            std::thread::sleep(std::time::Duration::from_millis(50));
            replica.kill();
            if !with_snapshot {
                // Without its saved replication offset it needs a full synchronization.
                std::fs::remove_file(replica.dir().join("dump.rdb")).expect("it had saved one");
            }
            replica.start_again();
            replica.wait_for_link();
        }
    });
    assert!(master.client().info_number("stats", "sync_full") >= 3);
    assert_converged(&master, &replica, "after three kills");
}

#[test]
fn promoted_replica_accepts_writes() {
    let old = Server::start();
    let new = Server::builder()
        .module_args("default-len 9")
        .replica_of(&old)
        .start();
    let mut random = Random(9);
    write_randomly(&mut old.client(), &mut random, 1000);
    assert_converged(&old, &new, "before the failover");
    new.client().ok("REPLICAOF NO ONE");
    old.client()
        .ok(&format!("REPLICAOF 127.0.0.1 {}", new.port()));
    write_randomly(&mut new.client(), &mut random, 1000);
    old.wait_for_link();
    assert_converged(&new, &old, "after the failover");
    new.client().ok("DEL fresh");
    new.client().ok("CINT.INCRBY fresh 8 1");
    new.wait_for_replica(&old);
    old.client().expect("CINT.LEN fresh", "(integer) 9");
    old.client().expect(
        "CINT.INCRBY fresh 8 1",
        "(error) READONLY You can't write against a read only replica.",
    );
}
