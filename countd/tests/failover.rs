//! A replica takes over while actions go on: countd finds the new master, and nothing that both had is lost or counts twice.

use crate::support::compare::compare;
use crate::support::workload::{Size, play};
use crate::support::{Countd, Settings, printed, run, set_schema, wait_until_all_drained};
use countint_tests::{Builder, Cluster, Server, wait_until};

const CONFIG: &str = "[log]\npartitions = 16\nretain = 100\n[consumer]\nlinger_ms = 5\nbatch = 50\ndead_after_ms = 500\n";

/// A replica is elected soon, and whoever has slots serves them.
fn impatient(builder: Builder) -> Builder {
    builder
        .append_only(true)
        .config("cluster-node-timeout 1000")
        .config("cluster-replica-validity-factor 0")
        .config("cluster-require-full-coverage no")
}

fn role(server: &Server) -> String {
    server.client().info("replication")["role"].clone()
}

fn wait_until_master(server: &Server) {
    wait_until("it has taken over", || role(server) == "master");
}

/// The two change places in the midst of everything: what the old master has acknowledged the new one has.
fn hand_over(from: &Server, to: &Server) {
    to.wait_for_link();
    let mut client = to.client();
    // It may have to wait until the others know it.
    wait_until("the handing over begins", || {
        client.run("CLUSTER FAILOVER") == "OK"
    });
    wait_until_master(to);
    wait_until("the old master has given way", || role(from) == "slave");
}

#[test]
fn nothing_is_lost_or_counted_twice_when_replicas_take_over() {
    let mut cluster = Cluster::with(impatient);
    let replica = cluster.replica(0, impatient);
    set_schema(&cluster.nodes[1], CONFIG);
    let start = |command| {
        let config = CONFIG;
        Countd::with(&cluster.nodes[1], &Settings { command, config })
    };
    let processes = [start("serve"), start("all")];
    let apis = [processes[0].api(), processes[1].api()];
    let size = Size {
        clients: 8,
        users: 10,
        notes: 200,
        each: 2_000,
        batch: 25,
    };
    let part = size.total() / 6;
    let model = play(&apis, 6, size, |progress| {
        progress.wait_for(part);
        hand_over(&cluster.nodes[0], &replica);
        progress.wait_for(2 * part);
        hand_over(&replica, &cluster.nodes[0]);
        progress.wait_for(3 * part);
        // Redis acknowledges what no replica has yet. So much is lost with a master, and nobody promises otherwise. So it is killed
        // when the replica has everything, and before it has anything else; all others go on at once.
        progress.in_silence(|| {
            wait_until_all_drained(&cluster.nodes, 16);
            cluster.nodes[0].wait_for_replica(&replica);
            cluster.nodes[0].kill();
        });
        wait_until_master(&replica);
        progress.wait_for(4 * part);
        cluster.nodes[0].start_again();
        progress.wait_for(5 * part);
        hand_over(&replica, &cluster.nodes[0]);
    });
    wait_until_all_drained(&cluster.nodes, 16);
    compare(&apis[0], &model, size);
    assert_eq!(
        printed(&run(&cluster.nodes[1], CONFIG, &["dead", "list"])),
        ""
    );
}
