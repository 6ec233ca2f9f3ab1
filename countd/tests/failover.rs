//! Failover to a replica while clients act: countd finds the new master, and replicated events count once.

use crate::support::invariants::assert_invariants_of_all;
use crate::support::stores::TestStore;
use crate::support::verify::assert_matches_model;
use crate::support::workload::{self, WorkloadSize, run_clients};
use crate::support::{
    Countd, Settings, on_note, printed, run, set_schema, wait_until_all_drained, with,
};
use countint_tests::{Builder, Cluster, Server, wait_until};
use serde_json::json;
use std::collections::HashMap;
use std::time::{Duration, Instant};

const CONFIG: &str = "[log]\npartitions = 16\nretain = 100\n[consumer]\nlinger_ms = 5\nbatch = 50\nsession_timeout_ms = 500\n";

/// Fails over quickly, and serves slots while others are down.
pub fn fast_failover(builder: Builder) -> Builder {
    builder
        .append_only(true)
        .config("cluster-node-timeout 1000")
        .config("cluster-replica-validity-factor 0")
        .config("cluster-require-full-coverage no")
}

/// `master` or `slave`.
pub fn role(server: &Server) -> String {
    server.client().info("replication")["role"].clone()
}

/// Waits until a replica has taken over.
pub fn wait_until_master(server: &Server) {
    wait_until("it has taken over", || role(server) == "master");
}

/// A manual failover: the replica has everything that the old master acknowledged.
pub fn fail_over(from: &Server, to: &Server) {
    to.wait_for_link();
    let mut client = to.client();
    let mut started: Option<Instant> = None;
    wait_until("it has taken over", || {
        // The replica gives up after five seconds, which can pass on a busy machine.
        let is_due = started.is_none_or(|started| started.elapsed() > Duration::from_secs(6));
        if is_due && client.run("CLUSTER FAILOVER") == "OK" {
            started = Some(Instant::now());
        }
        role(to) == "master"
    });
    wait_until("the old master is a replica", || role(from) == "slave");
}

#[test]
fn events_count_once_across_failovers() {
    let mut cluster = Cluster::with(fast_failover);
    let replica = cluster.replica(0, fast_failover);
    let config = &format!("{CONFIG}{}", workload::metrics());
    set_schema(&cluster.nodes[1], config);
    let start = |command| Countd::with(&cluster.nodes[1], &Settings { command, config });
    let processes = [start("serve"), start("all")];
    let apis = [processes[0].api(), processes[1].api()];
    let size = WorkloadSize {
        clients: 8,
        users: 10,
        notes: 200,
        actions_per_client: 2_000,
        batch: 25,
        erasures: 2,
    };
    let part = size.total() / 6;
    let model = run_clients(&apis, 6, size, |progress| {
        progress.wait_for(part);
        fail_over(&cluster.nodes[0], &replica);
        progress.wait_for(2 * part);
        fail_over(&replica, &cluster.nodes[0]);
        progress.wait_for(3 * part);
        // Redis replicates asynchronously: what the replica does not have yet is lost with the master. The master is therefore killed
        // while the replica is in sync and no request is in flight.
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
    assert_invariants_of_all(&cluster.nodes, config);
    assert_eq!(
        printed(&run(&cluster.nodes[1], CONFIG, &["dead", "list"])),
        ""
    );
}

/// The ids of notes or users by node. `key` returns the start of an id's key, and its partition.
fn ids_by_node(cluster: &Cluster, key: impl Fn(u64) -> (String, u16)) -> [Vec<u64>; 3] {
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
fn a_killed_node_does_not_delay_other_nodes() {
    assert_unavailable_node_does_not_delay_other_nodes(Server::kill, Server::start_again);
}

#[test]
fn an_unresponsive_node_does_not_delay_other_nodes() {
    assert_unavailable_node_does_not_delay_other_nodes(
        |node| node.signal("STOP"),
        |node| node.signal("CONT"),
    );
}

fn assert_unavailable_node_does_not_delay_other_nodes(
    take_down: fn(&mut Server),
    bring_up: fn(&mut Server),
) {
    let mut cluster =
        Cluster::with(|builder| fast_failover(builder).config("cluster-node-timeout 60000"));
    let config = &format!("{CONFIG}[redis]\nresponse_timeout_ms = 1000\n");
    set_schema(&cluster.nodes[0], config);
    let start = |command| Countd::with(&cluster.nodes[0], &Settings { command, config });
    let (serve, _consume) = (start("serve"), start("consume"));
    let api = serve.api();
    let partition = |of: &str| TestStore::partition(of, 16);
    let notes = ids_by_node(&cluster, |note| {
        let partition = partition(&format!("note:{note}"));
        ("tab:v1:note".to_owned(), partition)
    });
    let authors = ids_by_node(&cluster, |uid| {
        ("utab".to_owned(), partition(&uid.to_string()))
    });
    // One author on each node, and notes of each author on each node.
    let authors = authors.map(|authors| authors[0]);
    let [_, one, two] = authors;
    let author_of: HashMap<u64, u64> = notes
        .iter()
        .flat_map(|notes| notes.iter().copied().zip(authors.into_iter().cycle()))
        .collect();
    let notes_of = |notes: &[u64], author: u64| {
        let notes = notes.iter().filter(|note| author_of[*note] == author);
        notes.count() as u64
    };
    let mut uid = 1_000;
    let mut act = |note: u64| {
        uid += 1;
        api.act("read", on_note(note, uid));
        let like = with(on_note(note, uid), json!({ "author": author_of[&note] }));
        api.act("like", like);
    };
    let everywhere = notes.concat();
    notes.iter().flatten().for_each(|note| act(*note));
    wait_until_all_drained(&cluster.nodes, 16);

    take_down(&mut cluster.nodes[0]);
    for round in 2..=4 {
        let available: Vec<u64> = notes[1..].concat();
        available.iter().for_each(|note| act(*note));
        wait_until("notes on the other nodes are counted", || {
            available
                .iter()
                .all(|note| api.counts(*note)["read"] == round)
        });
        for author in [one, two] {
            wait_until("authors on the other nodes are counted", || {
                let likes =
                    notes_of(&everywhere, author) + (round - 1) * notes_of(&available, author);
                api.user(author)["likesReceived"] == likes
            });
        }
    }
    bring_up(&mut cluster.nodes[0]);
    wait_until("the node is up again", || {
        api.get(&format!("/relation/counter?uid={}", authors[0])).0 == 200
    });
    wait_until_all_drained(&cluster.nodes, 16);
    let available = notes[1..].concat();
    for author in authors {
        let likes = &api.user(author)["likesReceived"];
        let expected = notes_of(&everywhere, author) + 3 * notes_of(&available, author);
        assert_eq!(*likes, expected, "author {author}");
    }
    for note in &notes[0] {
        assert_eq!(api.counts(*note)["read"], 1, "note {note}");
    }
    assert_invariants_of_all(&cluster.nodes, config);
}
