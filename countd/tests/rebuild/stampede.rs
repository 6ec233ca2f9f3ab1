//! Many readers of a lost counter.

use super::setup::*;
use crate::facts::setup::CONFIG;
use crate::support::{Settings, metric};
use std::sync::Barrier;

const READERS: usize = 1_000;
/// Each reader at once has a thread.
const THREADS: usize = 100;

pub fn a_thousand_readers_cause_one_rebuild(store: TestStore) {
    let (_countd, api) = start_countd(&store);
    let (command, config) = ("serve", CONFIG);
    let others: Vec<Countd> = (0..2)
        .map(|_| Countd::with(&store.server, &Settings { command, config }))
        .collect();
    let mut apis = vec![api];
    apis.extend(others.iter().map(Countd::api));
    act_on(&apis[0], [1]);
    lose(&store, 1);
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (api, barrier) = (apis[thread % apis.len()].clone(), &barrier);
            scope.spawn(move || {
                barrier.wait();
                for _ in 0..READERS / THREADS {
                    assert_eq!(api.counts(1), expected());
                }
            });
        }
    });
    assert_eq!(corrections(&store, 1), ALL);
    let rebuilds = apis.iter().map(|api| metric(api, "countd_rebuilds_total"));
    assert_eq!(rebuilds.sum::<u64>(), 1);
}
