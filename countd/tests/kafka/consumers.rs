//! Consumers that are killed, paused, join and leave, in the midst of batches.

use super::{Setup, assert_equals_records, read, start};
use crate::support::invariants::assert_invariants;
use crate::support::kafka::{SentReads, Topic};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::workload::{Random, StopOnDrop};
use crate::support::{Countd, metric, on_note};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

for_each_store! {
    [module plain cluster]
    records_count_once_when_consumers_are_killed
    records_count_once_when_consumers_join_and_leave
}

const NOTES: u64 = 30;

/// What was done while consumers were killed.
struct Done {
    reads: SentReads,
    /// The number of likes: the n-th one is of note n modulo [`NOTES`].
    likes: u64,
}

/// Produces reads while `meanwhile` runs, some by another client and some by a process that serves, and likes notes. The process is never
/// killed, so every action succeeds.
fn produce_while(topic: &Topic, serving: &Countd, meanwhile: impl FnOnce()) -> Done {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let producing = scope.spawn(|| {
            let (api, mut reads, mut round) = (serving.api(), SentReads::default(), 0);
            while !stop.load(Relaxed) {
                let records: Vec<_> = (0..100).map(|i| read(i % NOTES, round)).collect();
                reads.produce(topic, &records);
                reads.act(&api, round % NOTES);
                api.act("like", on_note(round % NOTES, round));
                round += 1;
                thread::sleep(Duration::from_millis(2));
            }
            assert_eq!(reads.acknowledged_by_api(), round);
            let likes = round;
            Done { reads, likes }
        });
        let running = StopOnDrop(&stop);
        meanwhile();
        drop(running);
        producing.join().expect("it ends")
    })
}

/// Asserts that everything that was done is counted once.
#[track_caller]
fn assert_counted<B>(setup: &Setup<B>, done: &Done) {
    let records = setup.drain();
    done.reads.assert_in_topic(&records);
    assert_equals_records(&setup.api(), &records);
    for note in 0..NOTES {
        let likes = (0..done.likes).filter(|like| like % NOTES == note).count();
        assert_eq!(setup.api().counts(note)["like"], likes, "note {note}");
    }
    assert_invariants(&setup.store.server, &setup.config);
}

fn records_count_once_when_consumers_are_killed(store: TestStore) {
    consumers_are_killed(Setup::with(store, ""));
}

pub(super) fn consumers_are_killed<B>(mut setup: Setup<B>) {
    let serving = setup.another("serve");
    let mut random = Random(11);
    let mut countd = std::mem::replace(
        &mut setup.countd,
        start(&setup.store, &setup.config, "consume"),
    );
    let done = produce_while(&setup.topic, &serving, || {
        for _ in 0..5 {
            thread::sleep(Duration::from_millis(100 + random.below(300)));
            countd.kill();
            countd.launch();
        }
    });
    setup.countd = serving;
    assert_counted(&setup, &done);
}

fn records_count_once_when_consumers_join_and_leave(store: TestStore) {
    consumers_join_and_leave(Setup::with(store, ""));
}

pub(super) fn consumers_join_and_leave<B>(setup: Setup<B>) {
    let serving = setup.another("serve");
    let mut random = Random(12);
    let done = produce_while(&setup.topic, &serving, || {
        for round in 0..3 {
            let mut others: Vec<Countd> = (0..2).map(|_| setup.another("consume")).collect();
            thread::sleep(Duration::from_millis(200 + random.below(500)));
            for other in &mut others {
                match round % 2 {
                    0 => other.stop(),
                    _ => other.kill(),
                }
            }
        }
    });
    assert_counted(&setup, &done);
}

#[test]
fn a_zombie_counts_nothing_twice() {
    a_zombie_is_woken(Setup::start());
}

/// A zombie: it is woken after others have counted what it has read, and commits its batch.
pub(super) fn a_zombie_is_woken<B>(setup: Setup<B>) {
    let serving = setup.another("serve");
    let zombie = setup.another("all");
    let mut random = Random(13);
    let mut rounds = 0;
    let done = produce_while(&setup.topic, &serving, || {
        // Until it has been suspended in the midst of a batch, too.
        while rounds < 4 || metric(&zombie.api(), "countd_commit_conflicts_total") == 0 {
            rounds += 1;
            // On a busy machine the zombie is mostly suspended while it has no batch.
            assert!(rounds <= 100, "no batch of the zombie was rejected");
            zombie.suspend();
            // Past its session of 500 ms: the other process reads its partitions.
            thread::sleep(Duration::from_millis(1_000 + random.below(500)));
            zombie.resume();
            thread::sleep(Duration::from_millis(random.below(600)));
        }
    });
    assert_counted(&setup, &done);
}

#[test]
fn a_process_continues_after_a_pause() {
    the_only_process_is_paused(Setup::start());
}

/// Only the zombie is left: no other process has counted meanwhile.
pub(super) fn the_only_process_is_paused<B>(setup: Setup<B>) {
    setup
        .topic
        .produce(&(0..500).map(|i| read(i % 20, i)).collect::<Vec<_>>());
    setup.countd.suspend();
    setup
        .topic
        .produce(&(0..500).map(|i| read(i % 20, i)).collect::<Vec<_>>());
    thread::sleep(Duration::from_millis(1_500));
    setup.countd.resume();
    setup.assert_exact();
    assert_eq!(setup.api().counts(7)["read"], 50);
    assert_eq!(
        crate::support::dead_reasons(&setup.store.server, &setup.config).len(),
        0
    );
    assert_invariants(&setup.store.server, &setup.config);
}
