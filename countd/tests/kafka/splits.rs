//! An entity that is split: its likes and their copies go through the streams of its shards, its reads through the topic.

use super::{PARTITIONS, Setup, assert_equals_records, read};
use crate::split::model::{Load, SPLIT_STEPS, assert_likes_match_the_model};
use crate::split::repeated;
use crate::support::invariants::assert_invariants;
use crate::support::kafka::{Brokers, SentReads, Topic, wait_until_counted, wait_until_published};
use crate::support::stores::module;
use crate::support::workload::StopOnDrop;
use crate::support::{Api, Running, on_note};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// Lines of the configuration: clients are not limited.
pub(super) const SETTINGS: &str = "[limits.user]\nper_second = 0";

/// The number of steps at which something is killed with real brokers. At the others, something is on a mock cluster.
const STEPS: usize = 2;
/// The pause between two rounds of reads.
const PAUSE: Duration = Duration::from_millis(50);

/// Produces reads of the entity and of another one until it is stopped, also through the API.
fn produce_reads(topic: &Topic, api: &Api, pause: Duration, stop: &AtomicBool) -> SentReads {
    let (mut reads, mut round) = (SentReads::default(), 0);
    while !stop.load(Relaxed) {
        let records: Vec<_> = (0..20).map(|uid| read(7 + uid % 2, round + uid)).collect();
        reads.produce(topic, &records);
        reads.act(api, 7);
        round += 20;
        thread::sleep(pause);
    }
    reads
}

/// Asserts that the topic has all reads that were acknowledged, and that each counts once.
#[track_caller]
fn assert_reads<B>(setup: &Setup<B>, reads: &SentReads) {
    let records = wait_until_counted(&setup.store, &setup.topic, PARTITIONS);
    wait_until_published(&setup.store, PARTITIONS);
    assert!(reads.acknowledged_by_api() > 20);
    reads.assert_in_topic(&records);
    assert_equals_records(&setup.api(), &records);
}

/// A mock cluster drops the first records of a test with many, so its clients are slow.
#[test]
fn a_split_entity_counts_once_whatever_is_killed() {
    let load = Load {
        first: STEPS,
        steps: SPLIT_STEPS.len() - STEPS,
        clients: 2,
        pause: Duration::from_millis(100),
    };
    assert_counts_once(Setup::with(module(), SETTINGS), &load, 20 * PAUSE);
}

pub(super) fn an_entity_is_split<B>(setup: Setup<B>) {
    assert_counts_once(setup, &Load::of_steps(STEPS), PAUSE);
}

/// Reads are produced while the entity is split and merged, and commands, processes and Redis are killed.
fn assert_counts_once<B>(mut setup: Setup<B>, load: &Load, pause: Duration) {
    let stop = AtomicBool::new(false);
    let (topic, api, config) = (&setup.topic, setup.api(), setup.config.as_str());
    let reads = thread::scope(|scope| {
        let producing = scope.spawn(|| produce_reads(topic, &api, pause, &stop));
        let running = StopOnDrop(&stop);
        assert_likes_match_the_model(&mut setup.store, config, load);
        drop(running);
        producing.join().expect("it ends")
    });
    assert_reads(&setup, &reads);
}

/// Likes the entity as many users until it is stopped; each third one takes it back. Returns the number of likes that are left.
fn like(api: &Api, stop: &AtomicBool) -> u64 {
    let (mut uid, mut likes) = (0, 0);
    while !stop.load(Relaxed) {
        uid += 1;
        let act = |path: &str| repeated(|| api.try_post(path, &on_note(7, uid).to_string()));
        act("/action/like");
        match uid % 3 {
            0 => drop(act("/action/unlike")),
            _ => likes += 1,
        }
        thread::sleep(Duration::from_millis(10));
    }
    likes
}

/// A broker is killed in the midst of a split, and another one in the midst of a merge. The split and the merge go on without it.
pub(super) fn brokers_are_killed_during_a_split_and_a_merge(mut setup: Setup<Brokers>) {
    let stop = AtomicBool::new(false);
    let (topic, api) = (&setup.topic, setup.api());
    let (server, config) = (&setup.store.server, setup.config.as_str());
    let brokers = &mut setup.brokers;
    let (reads, likes) = thread::scope(|scope| {
        let producing = scope.spawn(|| produce_reads(topic, &api, PAUSE, &stop));
        let liking = scope.spawn(|| like(&api, &stop));
        let running = StopOnDrop(&stop);
        thread::sleep(Duration::from_secs(1));
        let split = ["hot", "split", "note:7", "--shards", "4", "--grace", "0"];
        let merge = ["hot", "merge", "note:7"];
        for (node, step, arguments) in [
            (0, "freezing facts", &split[..]),
            (1, "copying facts", &merge),
        ] {
            let mut command = Running::start(server, config, arguments);
            if !command.wait_for_step(step, 1) {
                panic!("{}", command.end().2);
            }
            // It does not get further before the broker is dead.
            command.suspend();
            brokers.kill(node);
            command.resume();
            let (succeeded, _, errors) = command.end();
            assert!(succeeded, "{errors}");
            // Likes of the entity are published without the broker.
            thread::sleep(Duration::from_secs(1));
            brokers.launch(node);
        }
        drop(running);
        let reads = producing.join().expect("it ends");
        (reads, liking.join().expect("it ends"))
    });
    setup.drain();
    assert_reads(&setup, &reads);
    assert!(likes > 100);
    assert_eq!(setup.api().counts(7)["like"], likes);
    assert_invariants(&setup.store.server, &setup.config);
}
