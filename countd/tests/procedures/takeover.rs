//! A region with all primaries of a cluster is lost.

use super::{Shell, commands, start_all, wait_until_ready};
use crate::failover::{fast_failover, role};
use crate::support::invariants::assert_invariants_of_all;
use crate::support::workload;
use crate::support::{Api, Countd, on_note, printed, run, set_schema, wait_until_all_drained};
use countint_tests::{Cluster, Server, wait_until};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const CONFIG: &str = "[log]\npartitions = 16\nretain = 100\n[consumer]\nlinger_ms = 5\nbatch = 50\nsession_timeout_ms = 500\n[prefilter]\nenabled = true\n";
const NOTES: u64 = 30;
/// The users whose likes all replicas have when the region is lost.
const REPLICATED: u64 = 20;

fn like(api: &Api, uid: u64) -> bool {
    let like = |eid| {
        let liked = api.try_post("/action/like", &on_note(eid, uid).to_string());
        liked.is_ok_and(|(status, _)| status == 200)
    };
    (1..=NOTES).all(like)
}

/// Likes of further users until the region is lost.
fn lose(cluster: &mut Cluster, countd: &mut Countd) {
    let (api, is_lost) = (countd.api(), AtomicBool::new(false));
    let begun = AtomicBool::new(false);
    thread::scope(|scope| {
        for client in 1..=4 {
            let (api, is_lost, begun) = (&api, &is_lost, &begun);
            scope.spawn(move || {
                let mut uid = client * 10_000;
                while !is_lost.load(Ordering::Relaxed) && like(api, uid) {
                    begun.store(true, Ordering::Relaxed);
                    uid += 1;
                }
            });
        }
        wait_until("clients act", || begun.load(Ordering::Relaxed));
        for node in &mut cluster.nodes {
            node.kill();
        }
        countd.kill();
        is_lost.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_cluster_is_taken_over_by_force() {
    let mut cluster = Cluster::with(fast_failover);
    let replicas: Vec<Server> = (0..3)
        .map(|of| cluster.replica(of, fast_failover))
        .collect();
    let config = &format!("{CONFIG}{}", workload::metrics());
    set_schema(&cluster.nodes[0], config);
    let mut in_a = start_all(&cluster.nodes[0], config);
    let mut in_b = start_all(&replicas[0], config);
    for uid in 0..REPLICATED {
        assert!(like(&in_b.api(), uid));
    }
    wait_until_all_drained(&cluster.nodes, 16);
    for (node, replica) in cluster.nodes.iter().zip(&replicas) {
        node.wait_for_replica(replica);
    }
    lose(&mut cluster, &mut in_a);
    let names = ["REPLICA-1", "REPLICA-2", "REPLICA-3"];
    let servers: Vec<(&str, &Server)> = names.into_iter().zip(&replicas).collect();
    let shell = Shell::new(config, &servers);
    for command in commands("Take over a cluster by force") {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words.as_slice() {
            ["ssh", "COUNTD-B", "systemctl", action, "countd"] => {
                super::systemctl(action, &mut in_b);
            }
            ["until", "curl", ..] => wait_until_ready(&in_b),
            ["ssh", "COUNTD-B", "countd", arguments @ ..] => {
                printed(&run(&replicas[0], config, arguments));
            }
            _ => drop(shell.run(&command)),
        }
    }
    wait_until_all_drained(&replicas, 16);
    let api = in_b.api();
    for eid in 1..=NOTES {
        assert!(
            api.counts(eid)["like"].as_u64() >= Some(REPLICATED),
            "{eid}"
        );
    }
    assert_invariants_of_all(&replicas, config);
    // The old region comes back.
    for node in &mut cluster.nodes {
        node.start_again();
    }
    for node in &cluster.nodes {
        wait_until("it is a replica", || role(node) == "slave");
    }
    let before: Vec<u64> = (1..=NOTES)
        .map(|eid| api.counts(eid)["like"].as_u64().expect("a count"))
        .collect();
    assert!(like(&api, 99_999));
    wait_until_all_drained(&replicas, 16);
    for (eid, before) in (1..=NOTES).zip(before) {
        assert_eq!(api.counts(eid)["like"], before + 1, "{eid}");
    }
    assert_invariants_of_all(&replicas, config);
    assert_eq!(printed(&run(&replicas[1], config, &["dead", "list"])), "");
}
