//! `redis.max_staleness_ms`: a read that is sent later than that after a write was confirmed returns the write, however far replicas lag.

use super::{LONG, SHORT, Setup, answered, serve};
use crate::support::stores::TestStore;
use crate::support::{Api, Link, on_note, set_schema};
use countint_tests::{Cluster, wait_until};
use std::thread;
use std::time::Duration;

/// The number of writes that are read. Each follows the last probe of the replica by another time.
const WRITES: u64 = 8;

/// Waits until a replica has answered with this number of likes of a note.
fn wait_for_replica_with(api: &Api, note: u64, likes: u64) {
    wait_until("a replica answers", || {
        let before = answered(api);
        api.counts(note)["like"] == likes && answered(api) > before
    });
}

/// Writes that the replica does not receive are read at once when the bound of `strict` has passed, by which time `patient` still reads the
/// replica.
fn assert_staleness_is_bounded(patient: &Api, strict: &Api, note: u64, pause: impl Fn(bool)) {
    let like = |likes: u64| {
        let reply = patient.act("like", on_note(note, likes));
        assert_eq!(reply["count"], likes, "the primary has it");
    };
    like(1);
    for likes in 2..2 + WRITES {
        // When the write comes, the data of the replica is new enough.
        for api in [patient, strict] {
            wait_for_replica_with(api, note, likes - 1);
        }
        pause(true);
        like(likes);
        thread::sleep(Duration::from_millis(SHORT.into()));
        // One read: a later one could be right although this one is not.
        assert_eq!(strict.counts(note)["like"], likes);
        let before = answered(strict);
        for _ in 0..5 {
            assert_eq!(strict.counts(note)["like"], likes);
        }
        assert_eq!(answered(strict), before, "the primary answers");
        // The replica is old, but not older than it may be for this process.
        wait_for_replica_with(patient, note, likes - 1);
        pause(false);
    }
    for api in [patient, strict] {
        wait_for_replica_with(api, note, 1 + WRITES);
    }
}

#[test]
fn replica_that_lags_is_read_only_within_the_bound() {
    let Setup {
        server,
        link,
        replica,
    } = Setup::new();
    let [patient, strict] = [LONG, SHORT].map(|bound| serve(&server, bound));
    let (patient, strict) = (patient.api(), strict.api());
    assert_staleness_is_bounded(&patient, &strict, 1, |is_paused| link.pause(is_paused));
    // A replica that does not answer is not waited for.
    replica.signal("STOP");
    let likes = strict.act("like", on_note(1, 100))["count"].clone();
    assert_eq!(strict.counts(1)["like"], likes);
    thread::sleep(Duration::from_millis(SHORT.into()));
    assert_eq!(strict.counts(1)["like"], likes);
    replica.signal("CONT");
}

/// The other nodes have no replicas.
#[test]
fn replica_of_a_node_that_lags_is_read_only_within_the_bound() {
    let cluster = Cluster::start();
    let node = &cluster.nodes[0];
    // Everything that connects to the node uses the link. Only what the replica receives is paused.
    let link = Link::to(node);
    let port = link.port().to_string();
    let mut client = node.client();
    client.ok(&format!("CONFIG SET cluster-announce-port {port}"));
    let replica = cluster.replica(0, |builder| builder.config("repl-timeout 3600"));
    wait_until("the replica uses the link", || {
        let info = replica.client().info("replication");
        info["master_port"] == port && info["master_link_status"] == "up"
    });
    set_schema(&cluster.nodes[1], "[log]\npartitions = 16\n");
    let notes = (1..).filter(|note| {
        let partition = TestStore::partition(&format!("note:{note}"), 16);
        let of_note = cluster.node_of(&format!("x:cnt-update:{{{partition}}}"));
        of_note.port() == node.port()
    });
    let note = { notes }.next().expect("the node has slots");
    let [patient, strict] = [LONG, SHORT].map(|bound| serve(&cluster.nodes[1], bound));
    let (patient, strict) = (patient.api(), strict.api());
    assert_staleness_is_bounded(&patient, &strict, note, |is_paused| {
        link.pause_replication(is_paused);
    });
}
