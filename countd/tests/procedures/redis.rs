//! Procedures on servers of Redis: upgrades, new nodes, another region, full disks and evictions.

use super::{Shell, commands, start_all, systemctl, wait_until_ready};
use crate::failover::{fast_failover, role};
use crate::replay::setup::{config as archiving, wait_until_archived};
use crate::support::invariants::{assert_invariants, assert_invariants_of_all};
use crate::support::stores::{TestStore, module};
use crate::support::verify::assert_matches_model;
use crate::support::workload::{self, WorkloadSize, run_clients};
use crate::support::{
    Api, Countd, Settings, metric, on_note, printed, run, set_schema, wait_until_all_drained,
    wait_until_drained,
};
use countint_tests::env::TempDir;
use countint_tests::{Cluster, Server, args, reply, wait_until};
use std::fs;
use std::process::Command;

const CONFIG: &str = "[log]\npartitions = 16\nretain = 100\n[consumer]\nlinger_ms = 5\nbatch = 50\nsession_timeout_ms = 500\n";
const PARTITIONS: u16 = 16;
const SIZE: WorkloadSize = WorkloadSize {
    clients: 6,
    users: 10,
    notes: 200,
    actions_per_client: 1_000,
    batch: 25,
    erasures: 2,
};

fn with_workload() -> String {
    format!("{CONFIG}{}", workload::metrics())
}

/// Likes of these users on ten notes.
fn like(api: &Api, users: std::ops::Range<u64>) {
    for uid in users {
        for eid in 1..=10 {
            api.ok(api.post("/action/like", &on_note(eid, uid)));
        }
    }
}

/// Asserts that ten notes have this many likes.
#[track_caller]
fn assert_likes(api: &Api, likes: u64) {
    for eid in 1..=10 {
        assert_eq!(api.counts(eid)["like"], likes, "note {eid}");
    }
}

#[test]
fn the_module_is_upgraded_by_failovers() {
    let mut cluster = Cluster::with(fast_failover);
    let mut replica = cluster.replica(0, fast_failover);
    let config = &with_workload();
    set_schema(&cluster.nodes[1], config);
    let countd = start_all(&cluster.nodes[1], config);
    let api = countd.api();
    let page = commands("Upgrade the module with replicas");
    let model = run_clients(std::slice::from_ref(&api), 21, SIZE, |progress| {
        progress.wait_for(SIZE.total() / 4);
        for command in &page {
            let primary = &mut cluster.nodes[0];
            let words: Vec<&str> = command.split_whitespace().collect();
            match words.as_slice() {
                ["ssh", "REPLICA", "systemctl", "restart", "countint-redis"] => replica.restart(),
                ["ssh", "PRIMARY", "systemctl", "restart", "countint-redis"] => {
                    wait_until("it is a replica", || role(primary) == "slave");
                    primary.restart();
                }
                _ => {
                    let names = [("PRIMARY", &*primary), ("REPLICA", &replica)];
                    let printed = Shell::new(config, &names).run(command);
                    if command.ends_with("MODULE LIST") {
                        assert!(printed.contains("countint"), "{printed}");
                    }
                }
            }
        }
    });
    assert_eq!(role(&replica), "master");
    cluster.nodes.push(replica);
    wait_until_all_drained(&cluster.nodes, PARTITIONS);
    assert_matches_model(&api, &model, SIZE);
    assert_invariants_of_all(&cluster.nodes, config);
}

#[test]
fn the_module_is_rolled_back_with_the_archive() {
    let (mut store, dir) = (module(), TempDir::new());
    let config = &archiving(&dir.path().join("archive"), "");
    set_schema(&store.server, config);
    let mut countd = start_all(&store.server, config);
    let api = countd.api();
    like(&api, 0..10);
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_archived(&store);
    let data = store.server.dir().display().to_string();
    let page = commands("Roll back the module");
    let mut is_upgraded = false;
    for command in &page {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words.as_slice() {
            ["systemctl", action, "countd"] => systemctl(action, &mut countd),
            ["systemctl", "stop", "countint-redis"] => drop(store.server.stop()),
            ["systemctl", "start", "countint-redis"] => store.server.start_again(),
            _ => {
                let shell = Shell::new(config, &[("PRIMARY", &store.server)]);
                shell.run(&command.replace("/var/lib/countint", &data));
            }
        }
        // What happens between the upgrade and the rollback.
        if command == "systemctl start countd" && !std::mem::replace(&mut is_upgraded, true) {
            like(&api, 10..20);
            wait_until_drained(&store.server, PARTITIONS);
            wait_until_archived(&store);
        }
    }
    wait_until_drained(&store.server, PARTITIONS);
    assert_likes(&api, 20);
    assert_invariants(&store.server, config);
    for copy in ["before", "newer"] {
        fs::remove_dir_all(format!("{data}.{copy}")).expect("the page has made it");
    }
}

#[test]
fn a_node_is_added_under_load() {
    let mut cluster = Cluster::start();
    let new = Server::builder()
        .config("cluster-enabled yes")
        .config("cluster-node-timeout 5000")
        .start();
    // Each node has some of them.
    const PARTITIONS: u16 = 256;
    let config = &with_workload().replace("partitions = 16", "partitions = 256");
    let countd = Countd::start(&cluster.nodes[0], config);
    let api = countd.api();
    let page = commands("Add a node to a cluster");
    // No entity is erased while slots move, as the page says.
    let size = WorkloadSize {
        erasures: 0,
        ..SIZE
    };
    let model = run_clients(std::slice::from_ref(&api), 23, size, |progress| {
        progress.wait_for(size.total() / 6);
        let names = [("PRIMARY", &cluster.nodes[0]), ("NEW", &new)];
        // A tenth of the slots takes a tenth of the time.
        let shell = Shell::new(config, &names).replace("slots 4096", "slots 400");
        page.iter().for_each(|command| drop(shell.run(command)));
    });
    let keys = reply::int(new.client().ok("DBSIZE"));
    assert!(keys > 0, "the new node has no keys");
    cluster.nodes.push(new);
    wait_until_all_drained(&cluster.nodes, PARTITIONS);
    assert_matches_model(&api, &model, size);
    assert_invariants_of_all(&cluster.nodes, config);
}

#[test]
fn a_region_is_switched() {
    let a = Server::builder().append_only(true).start();
    let b = a.replica();
    let config = &with_workload();
    set_schema(&a, config);
    let mut in_a = start_all(&a, config);
    like(&in_a.api(), 0..20);
    wait_until_drained(&a, PARTITIONS);
    // The other region reads its replica, and its actions are counted.
    let reading = &format!(
        "{config}[redis]\nread_from = \"replica\"\nreplicas = [\"127.0.0.1:{}\"]\n",
        b.port()
    );
    let serving = Settings {
        command: "serve",
        config: reading,
    };
    let mut reader = Countd::with(&a, &serving);
    wait_until("the replica answers", || {
        reader.api().counts(1);
        metric(&reader.api(), "countd_replica_reads_total") > 0
    });
    like(&reader.api(), 20..22);
    wait_until("the replica has them", || {
        reader.api().counts(1)["like"] == 22
    });
    assert_likes(&in_a.api(), 22);
    let mut in_b = None;
    let shell = Shell::new(config, &[("REGION-A", &a), ("REGION-B", &b)]);
    for command in commands("Switch to another region") {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words.as_slice() {
            ["ssh", "COUNTD-A", "systemctl", "stop", "countd"] => in_a.stop(),
            ["ssh", "COUNTD-B", "systemctl", "stop", "countd"] => reader.stop(),
            ["ssh", "COUNTD-B", "systemctl", "start", "countd"] => {
                in_b = Some(start_all(&b, config));
            }
            ["until", "curl", ..] => wait_until_ready(in_b.as_ref().expect("it was started")),
            ["ssh", "COUNTD-B", "countd", arguments @ ..] => {
                printed(&run(&b, config, arguments));
            }
            _ => drop(shell.run(&command)),
        }
    }
    let countd = in_b.expect("the page starts it");
    wait_until_drained(&b, PARTITIONS);
    assert_likes(&countd.api(), 22);
    like(&countd.api(), 22..25);
    wait_until_drained(&b, PARTITIONS);
    assert_likes(&countd.api(), 25);
    assert_invariants(&b, config);
    // The way back is open.
    a.wait_for_link();
    b.wait_for_replica(&a);
}

/// Limits the size of the files that a server writes, as a full disk does.
fn limit_files(server: &Server, bytes: &str) {
    let limited = Command::new("prlimit")
        .args([
            &format!("--fsize={bytes}:"),
            "--pid",
            &server.pid().to_string(),
        ])
        .status();
    let has_succeeded = limited.is_ok_and(|status| status.success());
    assert!(has_succeeded, "prlimit of util-linux");
}

#[test]
fn counting_continues_when_a_full_disk_is_freed() {
    let server = Server::builder()
        .append_only(true)
        .ignore_file_size_signal()
        .start();
    let config = &with_workload();
    let countd = Countd::start(&server, config);
    let api = countd.api();
    like(&api, 0..10);
    limit_files(&server, "1");
    let mut uid = 10;
    wait_until("a write is refused", || {
        // It may be answered before the file is written.
        let (status, _) = api.post("/action/like", &on_note(1, uid));
        uid += u64::from(status == 200);
        status == 503
    });
    limit_files(&server, "unlimited");
    let shell = Shell::new(config, &[("PRIMARY", &server)]);
    for command in commands("Free a full disk") {
        match command.starts_with("until curl") {
            true => wait_until_ready(&countd),
            false => drop(shell.run(&command)),
        }
    }
    wait_until_drained(&server, PARTITIONS);
    let likes = api.counts(1)["like"].as_u64().unwrap_or(0);
    // The refused one may have been executed.
    assert!(
        [uid, uid + 1].contains(&likes),
        "{likes} likes, {uid} acknowledged"
    );
    like(&api, 0..40);
    wait_until_drained(&server, PARTITIONS);
    assert_likes(&api, 40);
    assert_invariants(&server, config);
}

/// Fills the memory until the server evicts the key that was idle for longest: a table of counters.
fn evict(store: &TestStore, key: &str) {
    let mut client = store.server.client();
    // The second key is so large that no third one is evicted.
    client.ok("SETRANGE ballast 2000000 x");
    for (key, idle) in [(key, 1_000_000), ("ballast", 900_000)] {
        let content = reply::bytes(client.call(&args!["DUMP", key]));
        client.call(&args![
            "RESTORE", key, 0, content, "REPLACE", "IDLETIME", idle
        ]);
    }
    client.ok("CONFIG SET maxmemory-samples 1000");
    client.ok("CONFIG SET maxmemory-policy allkeys-lru");
    let used = client.info_number("memory", "used_memory");
    client.ok(&format!("CONFIG SET maxmemory {}", used + 50_000));
    let bytes = "x".repeat(1_000);
    wait_until("a key is evicted", || {
        client.call(&args!["APPEND", "filler", bytes]);
        client.info_number("stats", "evicted_keys") > 0
    });
    client.ok("CONFIG SET maxmemory 0");
    client.ok("DEL ballast filler");
    assert_eq!(client.run(&format!("EXISTS {key}")), "(integer) 0");
}

#[test]
fn evicted_counters_are_rebuilt() {
    let store = module();
    let config = &with_workload();
    let countd = Countd::start(&store.server, config);
    let api = countd.api();
    like(&api, 0..20);
    wait_until_drained(&store.server, PARTITIONS);
    evict(&store, &store.table("v1", "note:1", PARTITIONS));
    let shell = Shell::new(config, &[("PRIMARY", &store.server)]);
    for command in commands("Correct an eviction policy") {
        let printed = shell.run(&command);
        if command.contains("evicted_keys") {
            assert!(!printed.contains("evicted_keys:0"), "{printed}");
        }
    }
    let mut client = store.server.client();
    assert_eq!(
        client.config("maxmemory-policy")["maxmemory-policy"],
        "noeviction"
    );
    assert_likes(&api, 20);
    like(&api, 20..22);
    wait_until_drained(&store.server, PARTITIONS);
    assert_likes(&api, 22);
    assert_invariants(&store.server, config);
}
