//! `redis.ack` in a cluster: each node that was written has to confirm, and nothing confirmed is lost when a master is killed.

use super::{CODE, NEVER, SOON, config, confirmed, waiting};
use crate::failover::{fast_failover, role, wait_until_master};
use crate::support::invariants::assert_invariants_of_all;
use crate::support::stores::{TestStore, one_node_cluster, wait_until_up};
use crate::support::verify::assert_matches_model;
use crate::support::workload::{self, WorkloadSize, run_clients};
use crate::support::{Countd, Settings, on_note, set_schema, wait_until_all_drained, with};
use countint_tests::{Builder, Cluster, Server, reply, wait_until};
use serde_json::json;

#[test]
fn only_nodes_with_enough_replicas_confirm() {
    let cluster = Cluster::start();
    let _replica = cluster.replica(0, |builder| builder);
    let config = &config("replicas:1", SOON);
    set_schema(&cluster.nodes[0], config);
    let command = "serve";
    let countd = Countd::with(&cluster.nodes[0], &Settings { command, config });
    let api = countd.api();
    let port = cluster.nodes[0].port();
    let (mut safe, mut refused) = (0, 0);
    for eid in 0..30 {
        let partition = TestStore::partition(&format!("note:{eid}"), 16);
        let node = cluster.node_of(&format!("x:cnt-update:{{{partition}}}"));
        let send = || api.post("/action/like", &on_note(eid, 7));
        if node.port() == port {
            confirmed(send);
            safe += 1;
        } else {
            let (status, problem) = send();
            assert_eq!((status, &problem["code"]), (503, &json!(CODE)), "{problem}");
            refused += 1;
        }
    }
    assert!(safe > 0 && refused > 0, "{safe} {refused}");
}

#[test]
fn writes_are_confirmed_while_their_slot_is_moving() {
    let cluster = Cluster::start();
    let _replicas = [0, 1].map(|node| cluster.replica(node, |builder| builder));
    let config = &config("replicas:1", NEVER);
    set_schema(&cluster.nodes[0], config);
    let command = "serve";
    let countd = Countd::with(&cluster.nodes[0], &Settings { command, config });
    let api = countd.api();
    let note = (0..1_000).find(|eid| {
        let partition = TestStore::partition(&format!("note:{eid}"), 16);
        let log = format!("x:cnt-update:{{{partition}}}");
        cluster.node_of(&log).port() == cluster.nodes[0].port()
    });
    let note = note.expect("a note of the first node");
    let partition = TestStore::partition(&format!("note:{note}"), 16);
    let read = || api.post("/action/read", &on_note(note, 7));
    assert_eq!(read().0, 200);
    let [mut from, mut to] = [0, 1].map(|node| cluster.nodes[node].client());
    let slot = reply::int(from.ok(&format!("CLUSTER KEYSLOT x:cnt-update:{{{partition}}}")));
    to.ok(&format!(
        "CLUSTER SETSLOT {slot} IMPORTING {}",
        cluster.id(0)
    ));
    from.ok(&format!(
        "CLUSTER SETSLOT {slot} MIGRATING {}",
        cluster.id(1)
    ));
    // The mark is not in the slot any more, the log is.
    from.ok(&format!("DEL countd:ack:{{{partition}}}"));
    assert_eq!(read().0, 200);
    // Now the log has moved, too.
    let target = cluster.nodes[1].port();
    let log = format!("x:cnt-update:{{{partition}}}");
    from.ok(&format!("MIGRATE 127.0.0.1 {target} {log} 0 60000"));
    assert_eq!(read().0, 200);
    let length = reply::int(
        cluster.nodes[1]
            .client()
            .pipeline(&[vec!["ASKING".to_owned()], vec!["XLEN".to_owned(), log]])
            .remove(1),
    );
    assert_eq!(length, 3);
}

#[test]
fn derived_events_are_not_forwarded_before_a_replica_has_them() {
    // In cluster mode, increments of users' counters go through the outbox.
    let server = one_node_cluster();
    let replica = Server::builder().config("cluster-enabled yes").start();
    let mut client = replica.client();
    client.ok(&format!("CLUSTER MEET 127.0.0.1 {}", server.port()));
    let id = reply::text(server.client().ok("CLUSTER MYID"));
    wait_until("the replica knows its master", || {
        client.run(&format!("CLUSTER REPLICATE {id}")) == "OK"
    });
    replica.wait_for_link();
    let memory = &config("memory", NEVER);
    set_schema(&server, memory);
    let start = |command, config| Countd::with(&server, &Settings { command, config });
    let serve = start("serve", memory);
    let api = serve.api();
    let config = &config("replicas:1", NEVER);
    let _consume = start("consume", config);
    replica.signal("STOP");
    // The author's counters are in another partition than the note's.
    let author = (100..200).find(|author: &u64| {
        TestStore::partition(&author.to_string(), 16) != TestStore::partition("note:1", 16)
    });
    let author = author.expect("a user");
    api.act("like", with(on_note(1, 7), json!({ "author": author })));
    let partition = TestStore::partition("note:1", 16);
    let mut client = server.client();
    let outbox = format!("XLEN x:cnt-update:{{{partition}}}:out");
    wait_until("the relay waits", || {
        client.run(&outbox) != "(integer) 0" && waiting(&mut client) >= 1
    });
    assert_eq!(api.user(author)["likesReceived"], 0);
    replica.signal("CONT");
    wait_until("the author has the like", || {
        api.user(author)["likesReceived"] == 1
    });
}

/// Fails over only when the test says so: on a loaded machine, nodes are sometimes silent for seconds.
fn patient(builder: Builder) -> Builder {
    fast_failover(builder).config("cluster-node-timeout 60000")
}

/// Sets the time after which nodes fail over.
fn set_node_timeout<'s>(nodes: impl IntoIterator<Item = &'s Server>, ms: u32) {
    for node in nodes {
        let set = format!("CONFIG SET cluster-node-timeout {ms}");
        node.client().ok(&set);
    }
}

#[test]
fn nothing_confirmed_is_lost_with_a_master() {
    let mut cluster = Cluster::with(patient);
    let replicas = [0, 1, 2].map(|node| cluster.replica(node, patient));
    let config = &format!(
        "[redis]\nack = \"replicas:1\"\nack_timeout_ms = 2000\n[log]\npartitions = 16\nretain = 100\n\
         [consumer]\nlinger_ms = 5\nbatch = 50\nsession_timeout_ms = 500\n{}",
        workload::metrics()
    );
    set_schema(&cluster.nodes[1], config);
    let start = |command| Countd::with(&cluster.nodes[1], &Settings { command, config });
    let processes = [start("serve"), start("all")];
    let apis = [processes[0].api(), processes[1].api()];
    let size = WorkloadSize {
        clients: 8,
        users: 10,
        notes: 100,
        actions_per_client: 600,
        batch: 25,
        erasures: 0,
    };
    let model = run_clients(&apis, 8, size, |progress| {
        progress.wait_for(size.total() / 3);
        set_node_timeout(cluster.nodes.iter().chain(&replicas), 1_000);
        // Clients act: what they were told is in the replica.
        cluster.nodes[0].kill();
        wait_until_master(&replicas[0]);
        cluster.nodes[0].start_again();
        set_node_timeout(cluster.nodes.iter().chain(&replicas), 60_000);
    });
    let all: Vec<Server> = cluster.nodes.into_iter().chain(replicas).collect();
    wait_until_up(&all);
    let masters = || -> Vec<&Server> {
        let masters = all.iter().filter(|server| role(server) == "master");
        masters.collect()
    };
    // The one that was killed comes back as a master, until it hears that it is none any more.
    wait_until("three masters are left", || masters().len() == 3);
    let masters = masters();
    wait_until_all_drained(masters.iter().copied(), 16);
    assert_matches_model(&apis[0], &model, size);
    assert_invariants_of_all(masters, config);
}
