//! Replicas that are missing, lag, or have no link.

use super::{CONFIG, commands, execute, findings, found};
use crate::support::Link;
use crate::support::set_schema;
use countint_tests::env::free_port;
use countint_tests::{Cluster, Server, wait_until};

/// A server that needs no other advice.
fn primary() -> Server {
    let server = Server::builder().append_only(true).start();
    set_schema(&server, CONFIG);
    server
}

fn is_linked(replica: &Server) -> bool {
    replica.client().info("replication")["master_link_status"] == "up"
}

#[test]
fn a_missing_replica_is_added_by_the_command() {
    let server = primary();
    let config = format!("{CONFIG}[redis]\nack = \"replicas:1\"\n");
    let all = findings(&server, &config);
    let finding = found(&all, "redis.ack is replicas:1, but the server ");
    let command = &commands(finding)[0];
    let replica = Server::builder().append_only(true).start();
    let address = format!("-h 127.0.0.1 -p {}", replica.port());
    execute(
        &command.replace("-h REPLICA -p 6379", &address),
        &[&replica],
    );
    wait_until("nothing is found", || findings(&server, &config).is_empty());
}

#[test]
fn a_replica_that_lags_connects_again_by_the_command() {
    let server = primary();
    let link = Link::to(&server);
    let replica = Server::builder()
        .config(&format!("replicaof 127.0.0.1 {}", link.port()))
        .config("repl-timeout 3600")
        .start();
    wait_until("nothing is found", || findings(&server, CONFIG).is_empty());
    link.pause(true);
    server.client().ok("SET written 1");
    let all = findings(&server, CONFIG);
    let finding = found(&all, " lags: for seconds it has not received what ");
    link.pause(false);
    let command = &commands(finding)[0];
    assert!(command.ends_with(" CLIENT KILL TYPE master"), "{command}");
    execute(command, &[&replica]);
    wait_until("nothing is found", || findings(&server, CONFIG).is_empty());
}

#[test]
fn configured_replicas_without_a_link_follow_by_the_command() {
    let server = primary();
    let replica = Server::builder().start();
    // Nothing listens there.
    let nowhere = free_port();
    replica
        .client()
        .ok(&format!("REPLICAOF 127.0.0.1 {nowhere}"));
    let other = Server::builder().start();
    let address = |server: &Server| format!("127.0.0.1:{}", server.port());
    let gone = format!("127.0.0.1:{}", free_port());
    let config = format!(
        "{CONFIG}[redis]\nreplicas = [\"{}\", \"{}\", \"{gone}\"]\n",
        address(&replica),
        address(&other)
    );
    let all = findings(&server, &config);
    let unlinked = found(&all, " has no link to its primary");
    let primary = found(&all, "which is a primary: it is not read");
    for (finding, of) in [(unlinked, &replica), (primary, &other)] {
        let text = finding["text"].as_str().expect("a text");
        assert!(text.contains(&address(of)), "{text}");
        execute(&commands(finding)[0], &[&replica, &other]);
        wait_until("it follows", || is_linked(of));
    }
    wait_until("only the one that is gone is found", || {
        findings(&server, &config).len() == 1
    });
    let all = findings(&server, &config);
    let finding = found(&all, &format!("the replica {gone} does not answer"));
    assert!(commands(finding).is_empty(), "{finding}");
}

#[test]
fn a_replica_of_a_cluster_that_is_not_connected_is_named() {
    let cluster = Cluster::start();
    let mut replica = cluster.replica(0, |builder| builder);
    set_schema(&cluster.nodes[0], CONFIG);
    let about_replicas = || {
        let all = findings(&cluster.nodes[0], CONFIG);
        let texts = all.iter().filter_map(|finding| finding["text"].as_str());
        texts.filter(|text| text.contains("the replica")).count()
    };
    wait_until("the replica is in sync", || about_replicas() == 0);
    let address = format!("127.0.0.1:{}", replica.port());
    replica.kill();
    wait_until("its primary has no connection of it", || {
        about_replicas() == 1
    });
    let all = findings(&cluster.nodes[0], CONFIG);
    let finding = found(
        &all,
        &format!(
            "the replica {address} is not connected to 127.0.0.1:{}",
            cluster.nodes[0].port()
        ),
    );
    let expected = format!(
        "redis-cli -h 127.0.0.1 -p {} CLUSTER REPLICATE {}",
        replica.port(),
        cluster.id(0)
    );
    assert_eq!(commands(finding), std::slice::from_ref(&expected));
    replica.start_again();
    execute(&expected, &[&replica]);
    wait_until("the replica is in sync", || about_replicas() == 0);
}
