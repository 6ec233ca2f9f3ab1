//! A cluster: facts are on all nodes, and move with their slots.

use super::clients::{has as is_reported, like_while};
use super::{
    CONFIG, answers, assert_flood_is_answered_from_memory, builds, has, start, wait_until_built,
};
use crate::cluster::move_slots;
use crate::failover::{fail_over, fast_failover};
use crate::support::invariants::assert_invariants_of_all;
use crate::support::{Countd, on_note, set_schema};
use countint_tests::{Client, Cluster, Server, wait_until};

/// A process with filters, and one that acts.
fn processes(cluster: &Cluster) -> [Countd; 2] {
    set_schema(&cluster.nodes[0], CONFIG);
    let filtering = start(&cluster.nodes[0], "serve");
    [filtering, start(&cluster.nodes[1], "all")]
}

/// Asserts that no fact is denied while nodes change, and when the filters answer again.
fn assert_never_denied(processes: &[Countd; 2], change: impl FnOnce()) {
    let [api, other] = [processes[0].api(), processes[1].api()];
    wait_until_built(&api);
    let likes = like_while(&api, &other, change);
    assert!(!likes.is_empty());
    wait_until("the filters answer again", || {
        let before = answers(&api);
        for eid in 0..10 {
            assert!(!is_reported((eid, u64::MAX), &api));
        }
        answers(&api) > before
    });
    for like in likes {
        assert!(is_reported(like, &api), "{like:?}");
    }
}

#[test]
fn no_fact_is_denied_while_slots_move() {
    let cluster = Cluster::start();
    let processes = processes(&cluster);
    assert_never_denied(&processes, || {
        move_slots(&cluster, "1000");
        move_slots(&cluster, "1000");
    });
    assert_invariants_of_all(&cluster.nodes, CONFIG);
}

#[test]
fn no_fact_is_denied_while_nodes_are_killed() {
    let mut cluster = Cluster::with(|builder| builder.append_only(true));
    let processes = processes(&cluster);
    let api = processes[0].api();
    wait_until_built(&api);
    let built = builds(&api);
    assert_never_denied(&processes, || {
        for node in &mut cluster.nodes {
            node.kill();
            node.start_again();
        }
    });
    // Notices of the nodes may have been lost.
    assert!(builds(&api) > built);
    assert_invariants_of_all(&cluster.nodes, CONFIG);
}

#[test]
fn no_fact_is_denied_while_a_replica_takes_over() {
    let cluster = Cluster::with(fast_failover);
    let replica = cluster.replica(0, fast_failover);
    let processes = processes(&cluster);
    let first = &cluster.nodes[0];
    assert_never_denied(&processes, || {
        fail_over(first, &replica);
        fail_over(&replica, first);
    });
    assert_invariants_of_all(&cluster.nodes, CONFIG);
}

#[test]
fn statuses_of_users_who_have_not_acted_do_not_reach_the_nodes() {
    let cluster = Cluster::start();
    let [filtering, acting] = processes(&cluster);
    let (api, other) = (filtering.api(), acting.api());
    for uid in 1..=60 {
        other.act("like", on_note(uid, uid));
    }
    drop(acting);
    let has_facts = |node: &Server| node.client().run("KEYS rbm:like:note:*") != "(empty array)";
    assert!(cluster.nodes.iter().all(has_facts));
    wait_until_built(&api);
    let mut clients: Vec<Client> = cluster.nodes.iter().map(Server::client).collect();
    assert_flood_is_answered_from_memory(&filtering, &mut clients);
    for uid in 1..=60 {
        assert!(has(&api, uid, uid), "user {uid}");
        assert!(!has(&api, uid + 1, uid), "user {uid}");
    }
}
