//! Kafka as the log of a cluster: each node's partitions are counted from the same topic, by workers of that node.

use super::{PARTITIONS, TOPIC_PARTITIONS, act_until_accepted, assert_equals_records, read};
use crate::cluster::move_slots;
use crate::failover::{fail_over, fast_failover, wait_until_master};
use crate::support::invariants::Invariants;
use crate::support::kafka::{
    self, Brokers, Mock, Outage, Record, Topic, TwoOfThree, config, copies, expected,
};
use crate::support::stores::wait_until_up;
use crate::support::workload::Random;
use crate::support::{Api, Countd, Settings, on_note, set_schema, wait_until_all_drained};
use countint_tests::{Cluster, Server, wait_until};
use serde_json::json;
use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

const NOTES: u64 = 60;
/// The reads of each note in a call of [`produce`].
const READS: u64 = 10;

/// A mock cluster that is never away. With the many clients of the workers of three nodes, it stopped delivering after an outage, also the
/// records of this test's own producer. Real brokers do not.
struct Steady(Mock);

impl Steady {
    fn start() -> Steady {
        Steady(Mock::start(TOPIC_PARTITIONS))
    }
}

impl kafka::Cluster for Steady {
    fn addresses(&self) -> String {
        self.0.addresses()
    }

    fn topic(&self) -> Topic {
        self.0.topic()
    }
}

impl Outage for Steady {
    fn go_away(&mut self) {}

    fn come_back(&mut self) {}
}

#[test]
fn records_count_once_while_slots_move_and_replicas_take_over() {
    slots_move_and_replicas_take_over(&mut Steady::start());
}

#[test]
fn records_count_once_on_three_nodes_that_are_killed() {
    nodes_are_killed(&mut Steady::start());
}

#[test]
#[ignore = "needs real brokers: scripts/test-kafka"]
fn records_count_once_on_three_brokers_and_a_cluster() {
    let mut outage = TwoOfThree::killed(Brokers::start(3, TOPIC_PARTITIONS));
    slots_move_and_replicas_take_over(&mut outage);
    outage.brokers.delete_topic();
    outage.brokers.create_topic(TOPIC_PARTITIONS);
    nodes_are_killed(&mut outage);
}

/// Slots move to another node while brokers are away, and a replica of each node takes over, with and without what its master had written
/// last.
fn slots_move_and_replicas_take_over(brokers: &mut impl Outage) {
    let mut cluster = Cluster::with(fast_failover);
    let replicas = [0, 1, 2].map(|node| cluster.replica(node, fast_failover));
    let topic = brokers.topic();
    let config = &config(&brokers.addresses(), PARTITIONS, "");
    set_schema(&cluster.nodes[1], config);
    let start = |command| Countd::with(&cluster.nodes[1], &Settings { command, config });
    let (serving, _consumers) = (start("serve"), [start("consume"), start("consume")]);
    let api = serving.api();
    for round in 0..5 {
        produce(&topic, round);
        if round == 0 {
            brokers.go_away();
        }
        for note in 0..NOTES {
            act_until_accepted(&api, "like", &on_note(note, round));
        }
        match round {
            0 => {
                move_slots(&cluster, "1500");
                brokers.come_back();
            }
            1 => fail_over_all(&cluster.nodes, &replicas),
            2 => fail_over_all(&replicas, &cluster.nodes),
            3 => {
                // Facts are only in Redis. Counted records that the replica does not have are counted again.
                let replica = &replicas[0];
                wait_until_all_drained(&cluster.nodes, PARTITIONS);
                cluster.nodes[0].wait_for_replica(replica);
                replica.signal("STOP");
                cluster.nodes[0].client().ok("CLIENT KILL TYPE replica");
                produce(&topic, 10);
                wait_until_reads_are_counted(&topic, &api);
                cluster.nodes[0].kill();
                replica.signal("CONT");
                wait_until_master(replica);
                cluster.nodes[0].start_again();
            }
            _ => fail_over(&replicas[0], &cluster.nodes[0]),
        }
        wait_until("the process is ready", || api.get("/readyz").0 == 200);
    }
    assert_counted(&cluster, &topic, &api, (6, 5));
    Invariants::new(cluster.nodes.iter(), config).assert();
}

/// Makes replicas masters, one after the other.
fn fail_over_all(from: &[Server], to: &[Server]) {
    for (from, to) in from.iter().zip(to) {
        fail_over(from, to);
    }
}

/// Nodes and processes are killed in turn while records arrive, and nodes also while brokers are away.
fn nodes_are_killed(brokers: &mut impl Outage) {
    let mut cluster = Cluster::with(|builder| builder.append_only(true));
    let topic = brokers.topic();
    let config = &config(&brokers.addresses(), PARTITIONS, "");
    set_schema(&cluster.nodes[0], config);
    let start = |command| Countd::with(&cluster.nodes[0], &Settings { command, config });
    let serving = start("serve");
    let mut consumers = [start("consume"), start("consume")];
    let api = serving.api();
    let mut random = Random(15);
    for round in 0..9 {
        let turn = (round / 3) as usize;
        let are_away = round % 3 == 2;
        produce(&topic, round);
        if are_away {
            brokers.go_away();
        }
        for note in 0..NOTES {
            api.act("like", on_note(note, round));
        }
        thread::sleep(Duration::from_millis(random.below(200)));
        match round % 3 {
            0 => {
                let consumer = &mut consumers[turn % 2];
                consumer.kill();
                consumer.launch();
            }
            _ => {
                let node = &mut cluster.nodes[turn];
                node.kill();
                node.start_again();
                wait_until_up(&cluster.nodes);
                wait_until("the process is ready", || api.get("/readyz").0 == 200);
            }
        }
        if are_away {
            brokers.come_back();
        }
    }
    assert_counted(&cluster, &topic, &api, (9, 9));
    Invariants::new(cluster.nodes.iter(), config).assert();
}

/// Produces [`READS`] reads of each note.
fn produce(topic: &Topic, round: u64) {
    let reads = (0..READS * NOTES).map(|i| read(i % NOTES, round));
    topic.produce(&reads.collect::<Vec<_>>());
}

/// Waits until the counters are the sums of the records. Returns the records.
#[track_caller]
fn wait_until_reads_are_counted(topic: &Topic, api: &Api) -> Vec<Record> {
    let records = topic.records();
    let expected = expected(&records);
    assert_eq!(expected.len() as u64, NOTES, "reads of all notes");
    wait_until("all records are counted", || {
        expected.iter().all(|((metric, entity), expected)| {
            let note = entity.strip_prefix("note:").expect("a note");
            api.counts(note.parse().expect("a number"))[metric] == json!(expected)
        })
    });
    records
}

/// Waits until all records are counted and all likes are copied, and asserts that both were counted once: each note was produced and liked
/// as often as `produced` and `likes` say.
#[track_caller]
fn assert_counted(cluster: &Cluster, topic: &Topic, api: &Api, (produced, likes): (u64, u64)) {
    wait_until_reads_are_counted(topic, api);
    wait_until_all_drained(cluster.nodes.iter(), PARTITIONS);
    wait_until("all likes are copied", || {
        let copied = copied_likes(&topic.records());
        (0..NOTES).all(|note| copied.get(&note) == Some(&likes))
    });
    for note in 0..NOTES {
        let counts = api.counts(note);
        let found = [&counts["read"], &counts["like"]];
        assert_eq!(found, [produced * READS, likes], "note {note}");
    }
    // None counts twice later, the copies included.
    assert_equals_records(api, &topic.records());
}

/// The likes in the copies by note: repeats of a copy count once.
fn copied_likes(records: &[Record]) -> BTreeMap<u64, u64> {
    let mut likes = BTreeMap::new();
    for copies in copies(records).values() {
        let copy = copies[0].json();
        let note = copy["eid"].as_str().and_then(|eid| eid.parse().ok());
        *likes.entry(note.expect("a note")).or_default() += 1;
    }
    likes
}
