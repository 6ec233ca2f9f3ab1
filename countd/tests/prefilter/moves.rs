//! Keys of a cluster that move to nodes which the filters follow already, and to nodes that have joined.

use super::clients::{Like, act, has, like_while};
use super::{CONFIG, answers, builds, start, wait_until_built};
use crate::failover::{fail_over, fast_failover};
use crate::support::invariants::assert_invariants_of_all;
use crate::support::stores::TestStore;
use crate::support::{Api, Countd, pause, set_schema};
use countint_tests::{Client, Cluster, Server, reply, wait_until};
use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

/// A process with filters, and one that acts.
struct Setup {
    filtering: Countd,
    _acting: Countd,
    api: Api,
    other: Api,
}

impl Setup {
    /// The processes know the cluster by different nodes.
    fn new(cluster: &Cluster) -> Setup {
        let nodes = &cluster.nodes;
        set_schema(&nodes[0], CONFIG);
        let (filtering, acting) = (start(&nodes[0], "serve"), start(&nodes[1], "all"));
        let setup = Setup {
            api: filtering.api(),
            other: acting.api(),
            filtering,
            _acting: acting,
        };
        wait_until_built(&setup.api);
        setup
    }

    /// Likes while `meanwhile` runs. Asserts that no like is denied, neither at once nor afterwards.
    fn assert_no_like_is_denied(&self, meanwhile: impl FnOnce()) {
        let likes = like_while(&self.api, &self.other, meanwhile);
        self.assert_has(&likes);
        wait_until_built(&self.api);
        self.assert_has(&likes);
    }

    fn assert_has(&self, likes: &BTreeSet<Like>) {
        for like in likes {
            assert!(has(*like, &self.api), "{like:?}");
        }
    }
}

fn id(node: &Server) -> String {
    reply::text(node.client().ok("CLUSTER MYID"))
}

/// The slot of the facts of a note.
fn slot_of(note: u64, client: &mut Client) -> u16 {
    let partition = TestStore::partition(&format!("note:{note}"), 8);
    let slot = client.ok(&format!("CLUSTER KEYSLOT {{{partition}}}"));
    u16::try_from(reply::int(slot)).expect("a slot")
}

/// The node that has the keys of a slot.
fn owner(slot: u16, nodes: &[Server]) -> &Server {
    let has_keys = |node: &&Server| {
        let count = format!("CLUSTER COUNTKEYSINSLOT {slot}");
        node.client().run(&count) != "(integer) 0"
    };
    nodes.iter().find(has_keys).expect("a node has keys")
}

/// Lets a node export a slot to another one, and moves the keys that it has.
fn move_keys(slot: u16, from: &Server, to: &Server) {
    let (mut source, mut target) = (from.client(), to.client());
    target.ok(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", id(from)));
    source.ok(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", id(to)));
    loop {
        let keys = source.ok(&format!("CLUSTER GETKEYSINSLOT {slot} 10"));
        let keys: Vec<String> = reply::array(keys).into_iter().map(reply::text).collect();
        if keys.is_empty() {
            return;
        }
        let (port, keys) = (to.port(), keys.join(" "));
        source.ok(&format!("MIGRATE 127.0.0.1 {port} \"\" 0 5000 KEYS {keys}"));
    }
}

/// Makes a node the owner of a slot whose keys it has.
fn finish_move(slot: u16, to: &Server, nodes: &[Server]) {
    let others = nodes.iter().filter(|node| node.port() != to.port());
    for node in [to].into_iter().chain(others) {
        let mut client = node.client();
        client.ok(&format!("CLUSTER SETSLOT {slot} NODE {}", id(to)));
    }
}

/// What each node says of the number of nodes and of epochs.
fn infos(nodes: &[Server]) -> Vec<Vec<String>> {
    let names = [
        "cluster_known_nodes",
        "cluster_current_epoch",
        "cluster_my_epoch",
    ];
    let of_node = |node: &Server| {
        let info = reply::text(node.client().ok("CLUSTER INFO"));
        let lines = info.lines().map(str::to_owned);
        lines
            .filter(|line| names.iter().any(|name| line.starts_with(name)))
            .collect()
    };
    nodes.iter().map(of_node).collect()
}

/// Each primary is tracked, so the filters stay.
#[test]
fn no_like_is_denied_by_filters_that_stay_while_slots_move() {
    let cluster = Cluster::start();
    let (nodes, setup) = (&cluster.nodes, Setup::new(&cluster));
    // The node with the last epoch needs no later one to get slots.
    let last = &nodes[2];
    let slots = (0..16).map(|note| slot_of(note, &mut last.client()));
    let slots: BTreeSet<u16> = slots.collect();
    let before = infos(nodes);
    let (built, answered) = (builds(&setup.api), answers(&setup.api));
    let mut moved = 0;
    setup.assert_no_like_is_denied(|| {
        wait_until("all partitions have keys", || {
            let count = |slot: &u16| format!("CLUSTER COUNTKEYSINSLOT {slot}");
            let has_keys = |node: &Server, slot| node.client().run(&count(slot)) != "(integer) 0";
            slots
                .iter()
                .all(|slot| nodes.iter().any(|node| has_keys(node, slot)))
        });
        for slot in &slots {
            let from = owner(*slot, nodes);
            if from.port() == last.port() {
                continue;
            }
            move_keys(*slot, from, last);
            pause();
            finish_move(*slot, last, nodes);
            moved += 1;
        }
    });
    assert!(moved > 1);
    assert_eq!(infos(nodes), before);
    assert_eq!(builds(&setup.api), built);
    assert!(answers(&setup.api) > answered);
    assert_invariants_of_all(nodes, CONFIG);
}

#[test]
fn no_like_is_denied_while_slots_move_to_a_node_that_joins() {
    let mut cluster = Cluster::start();
    let setup = Setup::new(&cluster);
    let (built, mut joined) = (builds(&setup.api), None);
    setup.assert_no_like_is_denied(|| {
        let node = cluster.join();
        let (from, to) = (cluster.id(0), id(&node));
        let reshard = [
            "reshard",
            "{node}",
            "--cluster-yes",
            "--cluster-slots",
            "2000",
        ];
        let nodes = ["--cluster-from", &from, "--cluster-to", &to];
        cluster.manage(&[&reshard[..], &nodes].concat());
        joined = Some(node);
    });
    assert!(builds(&setup.api) > built);
    cluster.nodes.extend(joined);
    assert_invariants_of_all(&cluster.nodes, CONFIG);
}

/// The former primary cannot replicate, so it sends no notices of what the new one executes.
#[test]
fn no_like_is_denied_when_a_replica_takes_over() {
    let mut cluster = Cluster::with(fast_failover);
    let replica = cluster.replica(0, fast_failover);
    let setup = Setup::new(&cluster);
    let (built, former) = (builds(&setup.api), &cluster.nodes[0]);
    for setting in ["masteruser nobody", "masterauth wrong"] {
        former.client().ok(&format!("CONFIG SET {setting}"));
    }
    setup.assert_no_like_is_denied(|| {
        fail_over(former, &replica);
        sleep(Duration::from_secs(1));
    });
    assert!(builds(&setup.api) > built);
    cluster.nodes.push(replica);
    assert_invariants_of_all(&cluster.nodes, CONFIG);
}

/// The number of nodes and the epochs are the same as before.
#[test]
fn a_node_that_takes_the_place_of_a_replica_is_noticed() {
    let mut cluster = Cluster::start();
    let replica = cluster.replica(0, |builder| builder);
    let setup = Setup::new(&cluster);
    let note = 7;
    act("like", (note, 1), &setup.other);
    assert!(has((note, 1), &setup.api));
    wait_until_built(&setup.api);
    let (before, built) = (infos(&cluster.nodes), builds(&setup.api));
    setup.filtering.suspend();
    let forget = format!("CLUSTER FORGET {}", id(&replica));
    drop(replica);
    for node in &cluster.nodes {
        node.client().ok(&forget);
    }
    let joined = cluster.join();
    wait_until("the nodes say the same as before", || {
        infos(&cluster.nodes) == before
    });
    // The nodes are compared if the last comparison is longer ago.
    sleep(Duration::from_secs(1));
    setup.filtering.resume();
    assert!(has((note, 1), &setup.api));
    let slot = slot_of(note, &mut joined.client());
    move_keys(slot, owner(slot, &cluster.nodes), &joined);
    for uid in 1..40 {
        act("like", (note, uid), &setup.other);
        assert!(has((note, uid), &setup.api), "user {uid}");
        assert!(!has((note, 100 + uid), &setup.api), "user {uid}");
    }
    finish_move(slot, &joined, &cluster.nodes);
    cluster.nodes.push(joined);
    wait_until_built(&setup.api);
    assert!(builds(&setup.api) > built);
    for uid in 1..40 {
        assert!(has((note, uid), &setup.api), "user {uid}");
    }
    assert_invariants_of_all(&cluster.nodes, CONFIG);
}
