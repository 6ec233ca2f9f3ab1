//! Kafka as the log of a cluster: each node's partitions are counted from the same topic, by workers of that node.

use super::{PARTITIONS, TOPIC_PARTITIONS, act_until_accepted, assert_equals_records, read};
use crate::cluster::move_slots;
use crate::failover::{fail_over, fast_failover, wait_until_master};
use crate::support::invariants::Invariants;
use crate::support::kafka::{Mock, Record, Topic, config, expected};
use crate::support::stores::wait_until_up;
use crate::support::workload::Random;
use crate::support::{Api, Countd, Settings, on_note, set_schema, wait_until_all_drained};
use countint_tests::{Cluster, wait_until};
use serde_json::json;
use std::thread;
use std::time::Duration;

const NOTES: u64 = 60;

/// Slots move to another node, and a replica takes over, with and without what its primary had written last.
#[test]
fn records_count_once_while_slots_move_and_a_replica_takes_over() {
    let mut cluster = Cluster::with(fast_failover);
    let replica = cluster.replica(0, fast_failover);
    let mock = Mock::start(TOPIC_PARTITIONS);
    let topic = mock.topic();
    let config = &config(&mock.addresses(), PARTITIONS, "");
    set_schema(&cluster.nodes[1], config);
    let start = |command| Countd::with(&cluster.nodes[1], &Settings { command, config });
    let (serving, _consumers) = (start("serve"), [start("consume"), start("consume")]);
    let api = serving.api();
    let produce = |round| {
        let records: Vec<_> = (0..600).map(|i| read(i % NOTES, round)).collect();
        topic.produce(&records);
    };
    for round in 0..5 {
        produce(round);
        for note in 0..NOTES {
            act_until_accepted(&api, "like", &on_note(note, round));
        }
        match round {
            0 => move_slots(&cluster, "1500"),
            1 => fail_over(&cluster.nodes[0], &replica),
            2 => fail_over(&replica, &cluster.nodes[0]),
            3 => {
                // Facts are only in Redis. Counted records that the replica does not have are counted again.
                wait_until_all_drained(&cluster.nodes, PARTITIONS);
                cluster.nodes[0].wait_for_replica(&replica);
                replica.signal("STOP");
                cluster.nodes[0].client().ok("CLIENT KILL TYPE replica");
                produce(10);
                wait_until_reads_are_counted(&topic, &api);
                cluster.nodes[0].kill();
                replica.signal("CONT");
                wait_until_master(&replica);
                cluster.nodes[0].start_again();
            }
            _ => fail_over(&replica, &cluster.nodes[0]),
        }
        wait_until("the process is ready", || api.get("/readyz").0 == 200);
    }
    assert_counted(&cluster, &topic, &api, 5);
    Invariants::new(cluster.nodes.iter(), config).assert();
}

/// Nodes and processes are killed in turn while records arrive.
#[test]
fn records_count_once_on_three_nodes_that_are_killed() {
    let mut cluster = Cluster::with(|builder| builder.append_only(true));
    let mock = Mock::start(TOPIC_PARTITIONS);
    let topic = mock.topic();
    let config = &config(&mock.addresses(), PARTITIONS, "");
    set_schema(&cluster.nodes[0], config);
    let start = |command| Countd::with(&cluster.nodes[0], &Settings { command, config });
    let serving = start("serve");
    let mut consumers = [start("consume"), start("consume")];
    let api = serving.api();
    let mut random = Random(15);
    for round in 0..8 {
        let records: Vec<_> = (0..600).map(|i| read(i % NOTES, round)).collect();
        topic.produce(&records);
        for note in 0..NOTES {
            api.act("like", on_note(note, round));
        }
        thread::sleep(Duration::from_millis(random.below(200)));
        match round % 2 {
            0 => {
                let consumer = &mut consumers[(round / 2 % 2) as usize];
                consumer.kill();
                consumer.launch();
            }
            _ => {
                let node = &mut cluster.nodes[(round / 2 % 3) as usize];
                node.kill();
                node.start_again();
                wait_until_up(&cluster.nodes);
                wait_until("the process is ready", || api.get("/readyz").0 == 200);
            }
        }
    }
    assert_counted(&cluster, &topic, &api, 8);
    Invariants::new(cluster.nodes.iter(), config).assert();
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

/// Waits until all records are counted, and asserts that they were counted once, and that each note has this number of likes.
#[track_caller]
fn assert_counted(cluster: &Cluster, topic: &Topic, api: &Api, likes: u64) {
    let records = wait_until_reads_are_counted(topic, api);
    wait_until_all_drained(cluster.nodes.iter(), PARTITIONS);
    for note in 0..NOTES {
        assert_eq!(api.counts(note)["like"], likes, "note {note}");
    }
    // None counts twice later.
    assert_equals_records(api, &records);
}
