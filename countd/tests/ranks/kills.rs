//! Consumers and Redis are killed while they keep a ranking.

use super::{PARTITIONS, act, assert_invariants, config, wait_until_right};
use crate::support::kafka::Log;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::workload::Random;
use crate::support::{Countd, Settings, set_schema};
use std::thread;
use std::time::Duration;

for_each_store! {
    [module plain cluster]
    kills_leave_the_ranking_exact
}

fn kills_leave_the_ranking_exact(mut store: TestStore) {
    assert_exact_under_kills(&mut store, &Log::streams(&config()));
}

/// Asserts that the ranking is exact after kills of the consumer and of Redis.
pub fn assert_exact_under_kills(store: &mut TestStore, log: &Log) {
    let config = log.config.as_str();
    set_schema(&store.server, config);
    let start = |command| Countd::with(&store.server, &Settings { command, config });
    let (serve, mut consumer) = (start("serve"), start("consume"));
    let api = serve.api();
    let mut random = Random(13);
    for round in 0..3 {
        thread::scope(|scope| {
            let writes = scope.spawn(|| {
                let mut random = Random(round);
                for _ in 0..10 {
                    act(&api, &mut random, 40);
                }
            });
            while !writes.is_finished() {
                thread::sleep(Duration::from_millis(random.below(300)));
                consumer.kill();
                consumer.launch();
            }
        });
        store.restart();
        log.drain(&store.server, PARTITIONS);
        wait_until_right(&api);
        assert_invariants([&store.server], config);
    }
}
