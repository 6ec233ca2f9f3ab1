//! How far countd has counted and published, from its positions in Redis.

use super::topic::{Record, Source, Topic};
use crate::support::stores::{TestStore, positions};
use countint_tests::env::deadline;
use countint_tests::{Client, Server, Value, reply};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Waits until every record of the topic is counted: the position of the partition of each record's key is after it. Fails when there is no
/// progress. Returns the records.
#[track_caller]
pub fn wait_until_counted(store: &TestStore, topic: &Topic, partitions: u16) -> Vec<Record> {
    wait_until_server_counted(&store.server, topic, partitions)
}

/// [`wait_until_counted`] of a server.
#[track_caller]
pub fn wait_until_server_counted(server: &Server, topic: &Topic, partitions: u16) -> Vec<Record> {
    let is_cluster = server.client().info("cluster")["cluster_enabled"] == "1";
    let records = topic.records();
    let topic_partitions = topic.partitions();
    let mut last = BTreeMap::new();
    for record in records.iter().filter(|record| record.source().is_none()) {
        let Some(key) = &record.key else { continue };
        let partition = TestStore::partition(key, partitions);
        // A record in another partition is a dead letter of that one.
        if i32::from(partition) % topic_partitions == record.partition {
            last.insert(partition, record.offset);
        }
    }
    let what = "records are not counted";
    wait_without(server, what, |client| {
        let left = last.iter().map(|(partition, offset)| {
            let field = format!("topic:{partition}");
            let next = number(client, &positions(is_cluster, *partition), &field);
            (offset + 1 - next.unwrap_or(0)).max(0)
        });
        left.sum()
    });
    records
}

/// Waits until the copy of every entry of the streams that have one is in the topic: what is published is what is counted. Fails when there
/// is no progress.
#[track_caller]
pub fn wait_until_published(store: &TestStore, partitions: u16) {
    wait_without(&store.server, "entries are not published", |client| {
        let left = (0..partitions).map(|partition| {
            let positions = store.positions(partition);
            let next = number(client, &positions, &partition.to_string()).unwrap_or(1);
            let published = number(client, &positions, &format!("published:{partition}"));
            (next - published.unwrap_or(1)).max(0)
        });
        left.sum()
    });
}

/// The copies in the topic, by the events that they are copies of.
pub fn copies(records: &[Record]) -> BTreeMap<Source, Vec<Record>> {
    let mut copies: BTreeMap<_, Vec<Record>> = BTreeMap::new();
    for record in records {
        if let Some(source) = record.source() {
            copies.entry(source).or_default().push(record.clone());
        }
    }
    copies
}

fn number(client: &mut Client, key: &str, field: &str) -> Option<i64> {
    match client.call(&["HGET", key, field]) {
        Value::Nil => None,
        found => Some(reply::text(found).parse().expect("a number")),
    }
}

/// Waits until nothing is left. Fails when less and less is not left.
#[track_caller]
fn wait_without(server: &Server, what: &str, mut left: impl FnMut(&mut Client) -> i64) {
    let mut client = server.client();
    let (mut before, mut since) = (i64::MAX, Instant::now());
    loop {
        let now = left(&mut client);
        if now == 0 {
            return;
        }
        if now < before {
            (before, since) = (now, Instant::now());
        }
        assert!(since.elapsed() < deadline(120), "{now} {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
