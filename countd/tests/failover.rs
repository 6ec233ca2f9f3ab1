//! A replica takes over while actions go on: countd finds the new master, and nothing that both had is lost or counts twice.

use crate::support::stores::TestStore;
use crate::support::verify::assert_matches_model;
use crate::support::workload::{Size, run_clients};
use crate::support::{
    Countd, Settings, on_note, printed, run, set_schema, wait_until_all_drained, with,
};
use countint_tests::{Builder, Cluster, Server, wait_until};
use serde_json::json;
use std::time::{Duration, Instant};

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
fn fail_over(from: &Server, to: &Server) {
    to.wait_for_link();
    let mut client = to.client();
    let mut begun: Option<Instant> = None;
    wait_until("it has taken over", || {
        // It may have to wait until the others know it, and the server gives up after five seconds on a busy machine.
        let is_due = begun.is_none_or(|begun| begun.elapsed() > Duration::from_secs(6));
        if is_due && client.run("CLUSTER FAILOVER") == "OK" {
            begun = Some(Instant::now());
        }
        role(to) == "master"
    });
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
    let model = run_clients(&apis, 6, size, |progress| {
        progress.wait_for(part);
        fail_over(&cluster.nodes[0], &replica);
        progress.wait_for(2 * part);
        fail_over(&replica, &cluster.nodes[0]);
        progress.wait_for(3 * part);
        // Redis acknowledges what no replica has yet. So much is lost with a master, and nobody promises otherwise. So it is killed
        // when the replica has everything, and before it has anything else; all others go on at once.
        progress.while_idle(|| {
            wait_until_all_drained(&cluster.nodes, 16);
            cluster.nodes[0].wait_for_replica(&replica);
            cluster.nodes[0].kill();
        });
        wait_until_master(&replica);
        progress.wait_for(4 * part);
        cluster.nodes[0].start_again();
        progress.wait_for(5 * part);
        fail_over(&replica, &cluster.nodes[0]);
    });
    wait_until_all_drained(&cluster.nodes, 16);
    assert_matches_model(&apis[0], &model, size);
    assert_eq!(
        printed(&run(&cluster.nodes[1], CONFIG, &["dead", "list"])),
        ""
    );
}

/// Notes, or authors, of each node: `key` is how their key begins.
fn of_each_node(cluster: &Cluster, key: impl Fn(u64) -> (String, u16)) -> [Vec<u64>; 3] {
    let ports: Vec<u16> = cluster.nodes.iter().map(Server::port).collect();
    let mut found = [const { Vec::new() }; 3];
    for id in 1..=60 {
        let (name, partition) = key(id);
        let port = cluster.node_of(&format!("{name}:{{{partition}}}")).port();
        let node = ports.iter().position(|found| *found == port);
        found[node.expect("one of the three")].push(id);
    }
    found
}

#[test]
fn a_node_that_is_dead_holds_up_no_other() {
    a_node_that_is_gone_holds_up_no_other(Server::kill, Server::start_again);
}

#[test]
fn a_node_that_is_silent_holds_up_no_other() {
    a_node_that_is_gone_holds_up_no_other(|node| node.signal("STOP"), |node| node.signal("CONT"));
}

fn a_node_that_is_gone_holds_up_no_other(go: fn(&mut Server), come: fn(&mut Server)) {
    let mut cluster =
        Cluster::with(|builder| impatient(builder).config("cluster-node-timeout 60000"));
    let config = &format!("{CONFIG}[redis]\nresponse_timeout_ms = 1000\n");
    set_schema(&cluster.nodes[0], config);
    let start = |command| Countd::with(&cluster.nodes[0], &Settings { command, config });
    let (serve, _consume) = (start("serve"), start("consume"));
    let api = serve.api();
    let partition = |of: &str| TestStore::partition(of, 16);
    let notes = of_each_node(&cluster, |note| {
        let entity = format!("note:{note}");
        (format!("cnt:v1:{entity}"), partition(&entity))
    });
    let authors = of_each_node(&cluster, |uid| {
        (format!("ucnt:{uid}"), partition(&uid.to_string()))
    });
    // Of each node one author, whose notes are liked by a user for each note.
    let [away, one, two] = authors.map(|authors| authors[0]);
    let mut uid = 1_000;
    let mut act = |note: u64| {
        uid += 1;
        api.act("read", on_note(note, uid));
        for author in [away, one, two] {
            uid += 1;
            api.act(
                "like",
                with(on_note(note, uid), json!({ "author": author })),
            );
        }
    };
    let everywhere = notes.iter().flatten().count() as u64;
    notes.iter().flatten().for_each(|note| act(*note));
    wait_until_all_drained(&cluster.nodes, 16);

    go(&mut cluster.nodes[0]);
    for round in 2..=4 {
        let there: Vec<u64> = notes[1..].concat();
        there.iter().for_each(|note| act(*note));
        let count = there.len() as u64;
        wait_until("those of the other nodes are counted", || {
            there.iter().all(|note| api.counts(*note)["read"] == round)
        });
        for author in [one, two] {
            wait_until("and so are their authors there", || {
                api.user(author)["likesReceived"] == everywhere + (round - 1) * count
            });
        }
    }
    come(&mut cluster.nodes[0]);
    wait_until("it is there again", || {
        api.get(&format!("/relation/counter?uid={away}")).0 == 200
    });
    wait_until_all_drained(&cluster.nodes, 16);
    let count = notes[1..].concat().len() as u64;
    for author in [away, one, two] {
        let likes = &api.user(author)["likesReceived"];
        assert_eq!(*likes, everywhere + 3 * count, "author {author}");
    }
    for note in &notes[0] {
        assert_eq!(api.counts(*note)["read"], 1, "note {note}");
    }
}
