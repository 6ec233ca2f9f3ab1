//! Erasing from a cluster of three nodes.

use super::search::holders;
use super::users::{ERASED, act_through};
use super::{CONFIG, PARTITIONS, on, wait_until_done};
use crate::support::invariants::assert_invariants_of_all;
use crate::support::stores::TestStore;
use crate::support::{Countd, Settings, set_schema, wait_until_all_drained, with};
use countint_tests::Cluster;
use serde_json::json;

/// The keys of all nodes that hold an ID.
fn all_holders(cluster: &Cluster, id: &str) -> Vec<String> {
    let nodes = cluster.nodes.iter();
    nodes
        .flat_map(|node| holders(&mut node.client(), id))
        .collect()
}

fn start(cluster: &Cluster, command: &'static str) -> Countd {
    let config = CONFIG;
    Countd::with(&cluster.nodes[0], &Settings { command, config })
}

#[test]
fn an_erased_user_leaves_nothing_on_any_node() {
    let cluster = Cluster::start();
    set_schema(&cluster.nodes[0], CONFIG);
    let countd = start(&cluster, "all");
    let api = countd.api();
    let other = "812345678901234567";
    act_through(&api, ERASED);
    act_through(&api, other);
    wait_until_all_drained(&cluster.nodes, PARTITIONS);
    for node in &cluster.nodes {
        let found = holders(&mut node.client(), ERASED);
        assert!(!found.is_empty(), "each node has keys of the user");
    }
    let (status, job) = api.delete(&format!("/user/{ERASED}"));
    assert_eq!(status, 202, "{job}");
    let path = format!("/jobs/{}", job["id"].as_str().expect("an ID"));
    let job = wait_until_done(&api, &path);
    assert!(job["facts"].as_u64() >= Some(23), "{job}");
    wait_until_all_drained(&cluster.nodes, PARTITIONS);
    let found = all_holders(&cluster, ERASED);
    assert!(found.is_empty(), "{found:#?}");
    // The other user is untouched.
    let counts = |uid: &str| {
        let path = format!("/relation/counter?uid={uid}");
        api.ok(api.get(&path))["counts"].clone()
    };
    assert_eq!(counts(ERASED)["followings"], 0);
    assert_eq!(counts(other)["followings"], 4);
    assert_eq!(counts(other)["followers"], 7);
    assert_invariants_of_all(&cluster.nodes, CONFIG);
}

/// A node that was killed after the last pass has visited it may have lost the removals: the facts of this test were never removed, and the
/// job says that its pass has found nothing.
#[test]
fn nodes_that_were_restarted_during_the_last_pass_are_searched_again() {
    let mut cluster = Cluster::with(|builder| builder.append_only(true));
    set_schema(&cluster.nodes[0], CONFIG);
    let (serve, mut consume) = (start(&cluster, "serve"), start(&cluster, "consume"));
    let api = serve.api();
    let author = json!({ "author": 7 });
    api.act("like", with(on("1", ERASED), author.clone()));
    api.act("like", with(on("2", "42"), author));
    wait_until_all_drained(&cluster.nodes, PARTITIONS);
    consume.stop();
    let run_ids = |cluster: &Cluster| {
        let info = |node: &countint_tests::Server| node.client().info("server")["run_id"].clone();
        let mut found: Vec<String> = cluster.nodes.iter().map(info).collect();
        found.sort_unstable();
        found.join(" ")
    };
    let servers = run_ids(&cluster);
    let targets = [
        (format!("/user/{ERASED}"), "counters"),
        ("/entity/note/2".to_owned(), "traces"),
    ];
    let jobs = targets.map(|(path, step)| {
        let (status, job) = api.delete(&path);
        assert_eq!(status, 202, "{job}");
        let id = job["id"].as_str().expect("an ID").to_owned();
        let key = format!("countd:{{jobs}}:{id}");
        let fields = ["pass", "2", "dirty", "0", "step", step, "servers", &servers];
        let set = [["HSET", &key].as_slice(), &fields].concat();
        cluster.node_of(&key).client().call(&set);
        format!("/jobs/{id}")
    });
    let keys = ["note:1", "note:2"].map(|note| {
        let partition = TestStore::partition(note, PARTITIONS);
        format!("rbm:like:{note}:{{{partition}}}")
    });
    let killed = keys.map(|key| cluster.node_of(&key).port());
    for node in &mut cluster.nodes {
        if killed.contains(&node.port()) {
            node.kill();
            node.start_again();
        }
    }
    cluster.wait_until_stable();
    assert_ne!(run_ids(&cluster), servers);
    consume.launch();
    for job in &jobs {
        let job = wait_until_done(&api, job);
        assert!(job["pass"].as_u64() > Some(2), "{job}");
    }
    wait_until_all_drained(&cluster.nodes, PARTITIONS);
    let found = all_holders(&cluster, ERASED);
    assert!(found.is_empty(), "{found:#?}");
    let counts = |note: &str| api.ok(api.get(&format!("/counter/note/{note}")))["counts"].clone();
    assert_eq!(
        (counts("1")["like"].as_u64(), counts("2")["like"].as_u64()),
        (Some(0), Some(0))
    );
    assert_invariants_of_all(&cluster.nodes, CONFIG);
}
