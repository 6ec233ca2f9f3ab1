//! Clients act through the API while another client produces into the topic: the counts match the model and the records together.

use super::{PARTITIONS, Setup, TOPIC_PARTITIONS, read};
use crate::support::invariants::assert_invariants;
use crate::support::kafka::{
    Brokers, SentReads, Topic, expected, wait_until_counted, wait_until_published,
};
use crate::support::stores::{TestStore, module};
use crate::support::verify::assert_matches_model;
use crate::support::workload::{self, Model, Random, StopOnDrop, WorkloadSize, run_clients};
use crate::support::{Api, printed, run, wait_until_drained};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// As many actions as without Kafka.
const SIZE: WorkloadSize = crate::model::FULL;

/// The sections of the workload's configuration: limits that are checked but never reached, and metrics.
pub(super) fn settings() -> String {
    format!("{}{}", crate::model::LIMITS, workload::metrics())
}

/// Produces reads until it is stopped, as another client and through the processes of `apis` without idempotency keys.
pub(super) fn produce_reads(
    topic: &Topic,
    apis: &[Api],
    seed: u64,
    notes: u64,
    stop: &AtomicBool,
) -> SentReads {
    let (mut random, mut sent) = (Random(seed), SentReads::default());
    while !stop.load(Relaxed) {
        let records: Vec<_> = (0..50).map(|i| read(random.below(notes), i)).collect();
        sent.produce(topic, &records);
        for api in apis.iter().cycle().take(6) {
            sent.act(api, random.below(notes));
        }
        thread::sleep(Duration::from_millis(20));
    }
    sent
}

/// Waits until everything is counted and published, and asserts that the topic has what was acknowledged, that the counts are those of the
/// model and of the records in the topic, and that nothing is set aside.
#[track_caller]
pub(super) fn assert_matches_workload(
    api: &Api,
    store: &TestStore,
    config: &str,
    topic: &Topic,
    (mut model, sent): (Model, SentReads),
    size: WorkloadSize,
) {
    let records = wait_until_counted(store, topic, PARTITIONS);
    assert!(sent.acknowledged_by_api() > 100);
    sent.assert_in_topic(&records);
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_published(store, PARTITIONS);
    // The reads of the workload have idempotency keys, so they are in the streams. Those in the topic are added.
    let mut reads = 0;
    for ((metric, entity), count) in expected(&records) {
        if metric == "read" {
            let note = entity
                .strip_prefix("note:")
                .and_then(|note| note.parse().ok());
            let sum = model
                .counts
                .entry(("read", note.expect("a note")))
                .or_default();
            *sum += u64::try_from(count).expect("only additions");
            reads += count;
        }
    }
    eprintln!("{reads} reads in the topic of {} records", records.len());
    assert!(reads > 500);
    assert_matches_model(api, &model, size);
    assert_invariants(&store.server, config);
    assert_eq!(printed(&run(&store.server, config, &["dead", "list"])), "");
}

#[test]
#[ignore = "needs real brokers: scripts/test-kafka"]
fn the_result_of_fifty_clients_matches_the_model_on_three_brokers() {
    let setup = Setup::on(Brokers::start(3, TOPIC_PARTITIONS), module(), &settings());
    let (api, stop) = (setup.api(), AtomicBool::new(false));
    let apis = std::slice::from_ref(&api);
    let done = thread::scope(|scope| {
        let producing = scope.spawn(|| produce_reads(&setup.topic, apis, 7, SIZE.notes, &stop));
        let stop = StopOnDrop(&stop);
        let model = run_clients(apis, 4, SIZE, |_| {});
        drop(stop);
        (model, producing.join().expect("it ends"))
    });
    assert_matches_workload(&api, &setup.store, &setup.config, &setup.topic, done, SIZE);
}
