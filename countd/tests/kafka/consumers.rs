//! Consumers that are killed, paused, join and leave, in the midst of batches.

use super::{Setup, read, start};
use crate::support::invariants::assert_invariants;
use crate::support::kafka::Topic;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::workload::Random;
use crate::support::{Countd, on_note};
use std::thread;
use std::time::Duration;

for_each_store! {
    [module plain cluster]
    records_count_once_when_consumers_are_killed
    records_count_once_when_consumers_join_and_leave
}

/// Produces records while `meanwhile` runs, some by other clients and some by a process that serves.
fn produce_while(topic: &Topic, serving: &Countd, meanwhile: impl FnOnce()) {
    let is_done = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0;
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                let records: Vec<_> = (0..100).map(|i| read(i % 30, round)).collect();
                topic.produce(&records);
                let api = serving.api();
                api.act("read", on_note(round % 30, 1));
                api.act("like", on_note(round % 30, round));
                round += 1;
                thread::sleep(Duration::from_millis(2));
            }
        });
        meanwhile();
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
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
    produce_while(&setup.topic, &serving, || {
        for _ in 0..5 {
            thread::sleep(Duration::from_millis(100 + random.below(300)));
            countd.kill();
            countd.launch();
        }
    });
    setup.countd = serving;
    setup.assert_exact();
    assert_invariants(&setup.store.server, &setup.config);
}

fn records_count_once_when_consumers_join_and_leave(store: TestStore) {
    consumers_join_and_leave(Setup::with(store, ""));
}

pub(super) fn consumers_join_and_leave<B>(setup: Setup<B>) {
    let serving = setup.another("serve");
    let mut random = Random(12);
    produce_while(&setup.topic, &serving, || {
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
    setup.assert_exact();
    assert_invariants(&setup.store.server, &setup.config);
}

#[test]
fn a_zombie_counts_nothing_twice() {
    a_zombie_is_woken(Setup::start());
}

/// A zombie: it is woken after others have counted what it has read, and commits its batch.
pub(super) fn a_zombie_is_woken<B>(setup: Setup<B>) {
    let serving = setup.another("serve");
    let zombie = setup.another("consume");
    let mut random = Random(13);
    produce_while(&setup.topic, &serving, || {
        for _ in 0..4 {
            zombie.suspend();
            // Past its session of 500 ms: the other process reads its partitions.
            thread::sleep(Duration::from_millis(1_000 + random.below(500)));
            zombie.resume();
            thread::sleep(Duration::from_millis(random.below(600)));
        }
    });
    setup.assert_exact();
    assert_invariants(&setup.store.server, &setup.config);
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
