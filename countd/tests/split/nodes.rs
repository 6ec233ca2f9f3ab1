//! Shards on several nodes of a cluster, while slots move and a node is killed.

use super::clients::act_while;
use super::{AUTHOR, CONFIG, assert_likes, merge};
use crate::cluster::move_slots;
use crate::support::invariants::assert_invariants_of_all;
use crate::support::{Countd, Settings, printed, run, set_schema, wait_until_all_drained};
use countint_tests::{Cluster, reply};
use serde_json::json;

#[test]
fn shards_are_on_several_nodes() {
    let mut cluster = Cluster::with(|builder| builder.append_only(true));
    set_schema(&cluster.nodes[1], CONFIG);
    let settings = |command| Settings {
        command,
        config: CONFIG,
    };
    let processes =
        ["serve", "all"].map(|command| Countd::with(&cluster.nodes[1], &settings(command)));
    let apis = [processes[0].api(), processes[1].api()];
    apis[0].ok(apis[0].put("/entity/note/7", &json!({ "author": AUTHOR })));
    let split = ["hot", "split", "note:7", "--shards", "16", "--grace", "0"];
    let likes = act_while(&apis, 4, || {
        printed(&run(&cluster.nodes[1], CONFIG, &split));
        move_slots(&cluster, "1000");
        merge(&cluster.nodes[1], CONFIG);
        printed(&run(&cluster.nodes[1], CONFIG, &split));
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
