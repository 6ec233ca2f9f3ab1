//! Shards on several nodes of a cluster, while slots move and nodes are killed.

use super::clients::act_while;
use super::{AUTHOR, CONFIG, MERGE, assert_likes, merge};
use crate::cluster::move_slots;
use crate::support::invariants::assert_invariants_of_all;
use crate::support::stores::{TestStore, wait_until_up};
use crate::support::{
    Api, Countd, Running, Settings, printed, run, set_schema, wait_until_all_drained,
};
use countint_tests::{Cluster, reply};
use serde_json::json;
use std::thread;
use std::time::Duration;

/// Splits note 7: its shards are on all nodes.
const SPLIT: [&str; 7] = ["hot", "split", "note:7", "--shards", "16", "--grace", "0"];

/// The processes `serve` and `all`, and their clients. Note 7 has an author.
fn start(cluster: &Cluster) -> ([Countd; 2], [Api; 2]) {
    set_schema(&cluster.nodes[1], CONFIG);
    let settings = |command| Settings {
        command,
        config: CONFIG,
    };
    let processes =
        ["serve", "all"].map(|command| Countd::with(&cluster.nodes[1], &settings(command)));
    let apis = [processes[0].api(), processes[1].api()];
    apis[0].ok(apis[0].put("/entity/note/7", &json!({ "author": AUTHOR })));
    (processes, apis)
}

#[test]
fn shards_are_on_several_nodes() {
    let mut cluster = Cluster::with(|builder| builder.append_only(true));
    let (_processes, apis) = start(&cluster);
    let likes = act_while(&apis, 4, || {
        printed(&run(&cluster.nodes[1], CONFIG, &SPLIT));
        move_slots(&cluster, "1000");
        merge(&cluster.nodes[1], CONFIG);
        printed(&run(&cluster.nodes[1], CONFIG, &SPLIT));
        cluster.nodes[0].kill();
        cluster.nodes[0].start_again();
    })
    .likes;
    wait_until_all_drained(&cluster.nodes, 16);
    assert_likes(&apis[0], &likes);
    let with_shards = cluster.nodes.iter().filter(|node| {
        let keys = node.client().ok("KEYS rbm:like:note:7~*.*");
        !reply::array(keys).is_empty()
    });
    assert_eq!(with_shards.count(), 3);
    merge(&cluster.nodes[1], CONFIG);
    wait_until_all_drained(&cluster.nodes, 16);
    assert_likes(&apis[1], &likes);
    assert_invariants_of_all(&cluster.nodes, CONFIG);
}

/// The command and a node are killed, and another command finishes the merge: the node of the base to which facts are copied, and another
/// one whose shards are being deleted.
#[test]
fn a_merge_is_finished_when_the_command_and_a_node_are_killed() {
    let mut cluster = Cluster::with(|builder| builder.append_only(true));
    let (_processes, apis) = start(&cluster);
    let partition = TestStore::partition("note:7", 16);
    let port = cluster
        .node_of(&format!("x:cnt-update:{{{partition}}}"))
        .port();
    let mut nodes = cluster.nodes.iter();
    let base = nodes.position(|node| node.port() == port);
    let base = base.expect("a node");
    let likes = act_while(&apis, 4, || {
        for (step, node) in [("copying facts", base), ("deleting shards", (base + 1) % 3)] {
            printed(&run(&cluster.nodes[1], CONFIG, &SPLIT));
            // Users who act for the first time are at shards.
            thread::sleep(Duration::from_secs(2));
            kill_in_merge(&mut cluster, step, node);
            assert_eq!(merge(&cluster.nodes[1], CONFIG)["phase"], json!(null));
        }
    })
    .likes;
    wait_until_all_drained(&cluster.nodes, 16);
    for api in &apis {
        assert_likes(api, &likes);
    }
    for node in &cluster.nodes {
        assert_eq!(node.client().run("KEYS cnt:*~*"), "(empty array)");
    }
    assert_invariants_of_all(&cluster.nodes, CONFIG);
}

/// Kills a node and the command at a step of a merge, and starts the node again. The next merge waits until the lock of the command expires.
fn kill_in_merge(cluster: &mut Cluster, step: &str, node: usize) {
    let mut running = Running::start(&cluster.nodes[1], CONFIG, &MERGE);
    assert!(running.wait_for_step(step, 1), "{step}");
    // It does not get further before the node is dead.
    running.suspend();
    cluster.nodes[node].kill();
    running.kill();
    cluster.nodes[node].start_again();
    wait_until_up(&cluster.nodes);
}
