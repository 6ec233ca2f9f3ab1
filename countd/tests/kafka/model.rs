//! Clients act through the API while another client produces into the topic: the counts match the model and the records together.

use super::brokers::begin;
use super::{PARTITIONS, Setup, TOPIC_PARTITIONS, read};
use crate::model::{FEW, FULL, other_fact_stores};
use crate::support::invariants::assert_invariants;
use crate::support::kafka::{
    Brokers, SentReads, Topic, expected, wait_until_counted, wait_until_published,
};
use crate::support::stores::{TestStore, cluster, module, wait_until_compacted};
use crate::support::verify::assert_matches_model;
use crate::support::workload::{self, Model, Random, StopOnDrop, WorkloadSize, run_clients};
use crate::support::{Api, printed, run, wait_until_drained};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// The sections of the workload's configuration: limits that are checked but never reached, and metrics.
pub(super) fn settings(metrics: &str) -> String {
    format!("{}{metrics}", crate::model::LIMITS)
}

/// The number of rounds of reads that a mock cluster keeps.
pub(super) const KEPT_ROUNDS: u64 = 2_000;

/// Produces reads until it is stopped, or for this number of rounds, as another client and through the processes of `apis` without
/// idempotency keys.
pub(super) fn produce_reads(
    topic: &Topic,
    apis: &[Api],
    (seed, notes): (u64, u64),
    rounds: u64,
    stop: &AtomicBool,
) -> SentReads {
    let (mut random, mut sent) = (Random(seed), SentReads::default());
    for _ in 0..rounds {
        if stop.load(Relaxed) {
            break;
        }
        let records: Vec<_> = (0..50).map(|i| read(random.below(notes), i)).collect();
        sent.produce(topic, &records);
        for api in apis.iter().cycle().take(6) {
            sent.act(api, random.below(notes));
        }
        thread::sleep(Duration::from_millis(20));
    }
    sent
}

/// Fewer reads than the API acknowledges while the clients of a workload act.
fn least_reads(size: WorkloadSize) -> u64 {
    (size.total() / 2_000).min(100)
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
    assert!(sent.acknowledged_by_api() > least_reads(size));
    sent.assert_in_topic(&records);
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_published(store, PARTITIONS);
    // A user compacted between two pages can be on both.
    wait_until_compacted(store, PARTITIONS);
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
    assert!(reads > 5 * least_reads(size) as i64);
    assert_matches_model(api, &model, size);
    assert_invariants(&store.server, config);
    assert_eq!(printed(&run(&store.server, config, &["dead", "list"])), "");
}

/// As many actions as without Kafka, and fewer in cluster mode and with other fact stores.
#[test]
#[ignore = "needs real brokers: scripts/test-kafka"]
fn the_result_of_fifty_clients_matches_the_model_on_three_brokers() {
    let brokers = Brokers::start(3, TOPIC_PARTITIONS);
    for (name, store, metrics, size) in [
        ("the module", module(), workload::metrics(), FULL),
        ("cluster mode", cluster(), workload::metrics(), FEW),
        ("other fact stores", cluster(), other_fact_stores(), FEW),
    ] {
        let begun = begin(&brokers, name);
        let setup = Setup::on(&brokers, store, &settings(&metrics));
        assert_result_matches_the_model(&setup, size);
        eprintln!("{:.1?}", begun.elapsed());
    }
}

fn assert_result_matches_the_model<B>(setup: &Setup<B>, size: WorkloadSize) {
    let (api, stop) = (setup.api(), AtomicBool::new(false));
    let (apis, topic) = (std::slice::from_ref(&api), &setup.topic);
    let done = thread::scope(|scope| {
        let producing =
            scope.spawn(|| produce_reads(topic, apis, (7, size.notes), u64::MAX, &stop));
        let stop = StopOnDrop(&stop);
        let model = run_clients(apis, 4, size, |_| {});
        drop(stop);
        (model, producing.join().expect("it ends"))
    });
    assert_matches_workload(&api, &setup.store, &setup.config, topic, done, size);
}
