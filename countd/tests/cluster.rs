//! A cluster of three nodes, while slots move and nodes are killed.

use crate::failover::{fail_over, fast_failover};
use crate::support::invariants::assert_invariants_of_all;
use crate::support::stores::TestStore;
use crate::support::verify::assert_matches_model;
use crate::support::workload::{self, Random, WorkloadSize, run_clients};
use crate::support::{
    Countd, Settings, on_note, printed, run, run_at, set_schema, wait_until_all_drained,
};
use countint_tests::env::free_port;
use countint_tests::{Cluster, Server, reply, wait_until};
use serde_json::{Value as Json, json};
use std::thread;
use std::time::Duration;

/// Moves slots from the first node to the second.
pub(crate) fn move_slots(cluster: &Cluster, count: &str) {
    let (from, to) = (cluster.id(0), cluster.id(1));
    cluster.manage(&[
        "reshard",
        "{node}",
        "--cluster-from",
        &from,
        "--cluster-to",
        &to,
        "--cluster-slots",
        count,
        "--cluster-yes",
    ]);
}

#[test]
fn events_count_once_while_slots_move() {
    let cluster = Cluster::start();
    let first = &cluster.nodes[0];
    let config = &format!("[consumer]\nlinger_ms = 5\n{}", workload::metrics());
    let countd = Countd::start(first, config);
    let api = countd.api();
    assert_eq!(api.get("/readyz").0, 200);
    let size = WorkloadSize {
        clients: 6,
        users: 10,
        notes: 200,
        actions_per_client: 1_000,
        batch: 25,
        erasures: 2,
    };
    let model = run_clients(std::slice::from_ref(&api), 4, size, |_| {
        move_slots(&cluster, "500");
    });
    wait_until_all_drained(&cluster.nodes, 1024);
    assert_matches_model(&api, &model, size);
    assert_invariants_of_all(&cluster.nodes, config);
    for command in ["check", "schema list", "dead list"] {
        let args: Vec<&str> = command.split(' ').collect();
        let text = printed(&run(first, config, &args));
        let expected = match command {
            "dead list" => text.is_empty(),
            _ => text.contains("v1: read like fav comment repost"),
        };
        assert!(expected, "{command}: {text}");
    }
}

#[test]
fn any_seed_is_enough() {
    let cluster = Cluster::start();
    let nobody = free_port();
    let with = |seeds: &[u16]| {
        let seeds: Vec<String> = seeds
            .iter()
            .map(|port| format!("127.0.0.1:{port}"))
            .collect();
        format!("[redis]\nseeds = {seeds:?}\n")
    };
    set_schema(&cluster.nodes[0], "");
    let check = |seeds: &[u16]| run_at(nobody, &with(seeds), &["check"]);
    assert_eq!(check(&[]).status.code(), Some(1));
    assert_eq!(check(&[free_port()]).status.code(), Some(1));
    let found = check(&[free_port(), cluster.nodes[2].port()]);
    assert!(found.status.success(), "{found:?}");
    let single = Server::start();
    let refused = run(&single, &with(&[single.port()]), &["check"]);
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(error.contains("redis.seeds"), "{error}");
    let refused = run(&single, "[redis]\nseeds = [\"redis\"]\n", &["check"]);
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(error.contains("redis.seeds"), "{error}");
}

#[test]
fn nodes_are_found_again_when_all_known_masters_are_gone() {
    // Nodes fail over only by command.
    let patient = |builder| fast_failover(builder).config("cluster-node-timeout 60000");
    let mut cluster = Cluster::with(patient);
    let replicas = [0, 1, 2].map(|node| cluster.replica(node, patient));
    let config = "[log]\npartitions = 16\n[consumer]\nlinger_ms = 5\n";
    // They are, when the nodes have heard how far the replicas are.
    wait_until("the replicas are listed", || {
        let listed = format!("{:?}", cluster.nodes[0].client().ok("CLUSTER SLOTS"));
        let mut ports = replicas.iter().map(|replica| replica.port().to_string());
        ports.all(|port| listed.contains(&port))
    });
    set_schema(&cluster.nodes[0], config);
    let settings = Settings {
        command: "all",
        config,
    };
    let countd = Countd::with(&cluster.nodes[0], &settings);
    let api = countd.api();
    let like = |uid: u64, status: u16| {
        (0..30)
            .map(|eid| api.post("/action/like", &on_note(eid, uid)).0)
            .all(|found| found == status)
    };
    assert!(like(1, 200));
    // It learns nothing of the failovers.
    countd.suspend();
    for (node, replica) in cluster.nodes.iter().zip(&replicas) {
        fail_over(node, replica);
    }
    cluster.nodes.iter_mut().for_each(Server::kill);
    countd.resume();
    wait_until("all nodes are found", || like(2, 200));
    wait_until_all_drained(&replicas, 16);
    assert!((0..30).all(|eid| api.counts(eid)["like"] == 2));
}

#[test]
fn replicas_that_are_added_later_are_known() {
    let cluster = Cluster::start();
    set_schema(&cluster.nodes[0], "");
    let settings = Settings {
        command: "serve",
        config: "",
    };
    let countd = Countd::with(&cluster.nodes[0], &settings);
    let replica = cluster.replica(0, |builder| builder);
    let api = countd.api();
    wait_until("it is asked for the slots", || {
        api.counts(1);
        let stats = replica.client().info("commandstats");
        stats.contains_key("cmdstat_cluster|slots")
    });
}

#[test]
fn nodes_are_found_again_when_all_seeds_are_gone() {
    let cluster = Cluster::start();
    let seed = cluster.replica(0, |builder| builder);
    let config = "[log]\npartitions = 16\n[consumer]\nlinger_ms = 5\n";
    set_schema(&cluster.nodes[0], config);
    let settings = Settings {
        command: "all",
        config,
    };
    let countd = Countd::with(&seed, &settings);
    let api = countd.api();
    let like = |uid: u64| {
        (0..50).for_each(|eid| {
            api.act("like", on_note(eid, uid));
        });
    };
    like(1);
    let id = reply::text(seed.client().ok("CLUSTER MYID"));
    drop(seed);
    for node in &cluster.nodes {
        node.client().ok(&format!("CLUSTER FORGET {id}"));
    }
    move_slots(&cluster, "4000");
    like(2);
    wait_until_all_drained(&cluster.nodes, 16);
    assert!((0..50).all(|eid| api.counts(eid)["like"] == 2));
}

/// The nodes restart at other addresses, as pods without stable addresses do, twice. The processes run on: of all addresses that they know,
/// only one seed has a node each time.
#[test]
fn events_count_once_when_all_nodes_move_to_other_addresses() {
    let mut cluster = Cluster::with(|builder| builder.append_only(true));
    let former = [0, 1, 2].map(|node| cluster.nodes[node].port());
    let other = [0, 1, 2].map(|_| free_port());
    let later = [free_port(), former[1], free_port()];
    let seeds = [former[1], free_port(), other[2]].map(|port| format!("127.0.0.1:{port}"));
    let config = format!(
        "[redis]\nseeds = {seeds:?}\n[log]\npartitions = 16\nretain = 100\n[consumer]\nlinger_ms = 5\nbatch = 50\nsession_timeout_ms = 500\n{}",
        workload::metrics()
    );
    let config = config.as_str();
    set_schema(&cluster.nodes[0], config);
    let settings = |command| Settings { command, config };
    let processes =
        ["serve", "consume"].map(|command| Countd::with(&cluster.nodes[0], &settings(command)));
    let api = processes[0].api();
    let size = WorkloadSize {
        clients: 6,
        users: 20,
        notes: 200,
        actions_per_client: 600,
        batch: 25,
        erasures: 2,
    };
    let model = run_clients(std::slice::from_ref(&api), 6, size, |progress| {
        for (part, ports) in (1..).zip([other, later]) {
            progress.wait_for(part * size.total() / 3);
            cluster.move_to(ports);
        }
    });
    wait_until_all_drained(&cluster.nodes, 16);
    for process in &processes {
        wait_until("the process is ready", || {
            process.api().get("/readyz").0 == 200
        });
    }
    assert_matches_model(&api, &model, size);
    assert_invariants_of_all(&cluster.nodes, config);
    assert_eq!(
        printed(&run(&cluster.nodes[0], config, &["dead", "list"])),
        ""
    );
}

#[test]
fn slots_that_had_no_master_are_served_again() {
    let cluster = Cluster::with(|builder| builder.config("cluster-require-full-coverage no"));
    let config = "[log]\npartitions = 16\n";
    let countd = Countd::start(&cluster.nodes[1], config);
    let api = countd.api();
    let entity = "note:1";
    let log = format!("x:cnt-update:{{{}}}", TestStore::partition(entity, 16));
    let slot = cluster.nodes[0]
        .client()
        .run(&format!("CLUSTER KEYSLOT {log}"));
    let slot = slot.trim_start_matches("(integer) ");
    api.act("like", on_note(1, 1));
    wait_until_all_drained(&cluster.nodes, 16);

    // The owner goes first: its gossip would assign the slot again.
    let owner = cluster.node_of(&log);
    let others = cluster.nodes.iter().filter(|n| n.port() != owner.port());
    for node in [owner].into_iter().chain(others) {
        let mut client = node.client();
        client.ok(&format!("CLUSTER DELSLOTS {slot}"));
        // countd reads the slots again after a lost connection.
        client.run("CLIENT KILL TYPE normal");
    }
    wait_until("countd finds that a slot has no master", || {
        countd.log().contains("a slot has no master")
    });
    let mut client = owner.client();
    client.ok(&format!("CLUSTER ADDSLOTS {slot}"));
    // Other nodes learn by gossip who serves the slot: until then, requests may still fail.
    wait_until("the partition is served and counted again", || {
        api.post("/action/read", &on_note(1, 2));
        let (status, response) = api.get("/counter/note/1");
        status == 200 && response["counts"]["read"] != 0
    });
    assert_invariants_of_all(&cluster.nodes, config);
}

#[test]
fn a_page_is_one_round_trip_to_each_node_and_two_without_counts() {
    let cluster = Cluster::start();
    set_schema(&cluster.nodes[0], "");
    // Without a consumer only the requests reach the nodes. The limit of a user, which all processes share, takes a round trip of its own.
    let (command, config) = ("serve", "[limits]\nuser = { per_second = 0, burst = 1 }\n");
    let countd = Countd::with(&cluster.nodes[0], &Settings { command, config });
    let api = countd.api();
    let notes: Vec<u64> = (1..=100).collect();
    for note in &notes {
        api.act("like", on_note(*note, 42));
    }
    let mut clients: Vec<_> = cluster.nodes.iter().map(|node| node.client()).collect();
    // The number of reads from client sockets: pipelined commands are one read.
    let mut count_reads = || -> Vec<u64> {
        let count_reads = clients.iter_mut().map(|client| {
            let stats = client.info("stats");
            stats["total_reads_processed"].parse().expect("a number")
        });
        count_reads.collect()
    };
    // The round trips of a page to each node. A task of countd may add one, so the least of several pages is taken.
    let mut round_trips = |read: &mut dyn FnMut()| -> Vec<u64> {
        let mut least = vec![u64::MAX; 3];
        for _ in 0..3 {
            let before = count_reads();
            read();
            for ((least, after), before) in least.iter_mut().zip(count_reads()).zip(before) {
                // INFO itself is one of them.
                *least = (*least).min(after - before - 1);
            }
        }
        least
    };
    let items = |notes: &[u64]| -> Vec<Json> {
        let notes = notes.iter();
        notes
            .map(|note| json!({ "etype": "note", "eid": note }))
            .collect()
    };
    for (path, request) in [
        ("/counter/batch", json!({ "items": items(&notes) })),
        ("/feed", json!({ "uid": 42, "items": items(&notes) })),
    ] {
        let mut response = Json::Null;
        let read = &mut || response = api.ok(api.post(path, &request));
        assert_eq!(round_trips(read), [1, 1, 1], "{path}");
        let items = response["items"].as_array().expect("items");
        assert_eq!(items.len(), notes.len());
        assert!(items.iter().all(|item| item["counts"]["like"] == 1));
    }
    // Counters of 0 may be lost, so a page of entities that are not known to have none takes another round trip.
    for path in ["/counter/batch", "/feed"] {
        let mut first = if path == "/feed" { 100_000 } else { 10_000 };
        let read = &mut || {
            let unknown: Vec<u64> = (first..first + 100).collect();
            first += 100;
            let mut request = json!({ "items": items(&unknown) });
            if path == "/feed" {
                request["uid"] = json!("42");
            }
            let response = api.ok(api.post(path, &request));
            assert_eq!(response["items"][99]["counts"]["like"], 0);
        };
        assert_eq!(round_trips(read), [2, 2, 2], "{path}");
    }
    let status = json!({ "uid": 42, "metrics": ["like"], "items": [
        { "etype": "note", "eid": 1 }, { "etype": "note", "eid": 1_000 },
    ]});
    let response = api.ok(api.post("/status/batch", &status));
    assert_eq!(response["items"][0]["status"]["like"], true);
    assert_eq!(response["items"][1]["status"]["like"], false);
}

#[test]
fn events_count_once_when_nodes_are_killed() {
    let mut cluster = Cluster::with(|builder| builder.append_only(true));
    let config = format!(
        "[log]\npartitions = 16\nretain = 100\n[consumer]\nlinger_ms = 5\nbatch = 50\nsession_timeout_ms = 500\n{}",
        workload::metrics()
    );
    let config = config.as_str();
    set_schema(&cluster.nodes[0], config);
    let settings = |command| Settings { command, config };
    let mut processes =
        ["serve", "consume"].map(|command| Countd::with(&cluster.nodes[0], &settings(command)));
    let api = processes[0].api();
    let size = WorkloadSize {
        clients: 6,
        users: 20,
        notes: 200,
        actions_per_client: 1_200,
        batch: 25,
        erasures: 2,
    };
    let mut random = Random(5);
    let model = run_clients(std::slice::from_ref(&api), 5, size, |_| {
        for kill in 0..10 {
            thread::sleep(Duration::from_millis(100 + random.below(300)));
            match kill % 5 {
                process @ (0 | 1) => {
                    processes[process].kill();
                    processes[process].launch();
                }
                node => {
                    cluster.nodes[node - 2].kill();
                    cluster.nodes[node - 2].start_again();
                }
            }
        }
    });
    wait_until("the cluster serves all slots again", || {
        cluster.nodes.iter().all(|node| {
            let info = countint_tests::reply::text(node.client().ok("CLUSTER INFO"));
            info.contains("cluster_state:ok")
        })
    });
    wait_until_all_drained(&cluster.nodes, 16);
    assert_matches_model(&api, &model, size);
    assert_invariants_of_all(&cluster.nodes, config);
    assert_eq!(
        printed(&run(&cluster.nodes[0], config, &["dead", "list"])),
        ""
    );
}
