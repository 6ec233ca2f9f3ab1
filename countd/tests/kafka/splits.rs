//! An entity that is split: its likes and their copies go through the streams of its shards, its reads through the topic. Needs real
//! brokers: the mock cluster drops records of long tests.

use super::{PARTITIONS, Setup, assert_equals_records, read};
use crate::split::StopOnDrop;
use crate::split::model::assert_likes_match_the_model;
use crate::support::kafka::{wait_until_counted, wait_until_published};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// Lines of the configuration: clients are not limited.
pub(super) const SETTINGS: &str = "[limits.user]\nper_second = 0";

/// Reads are produced while the entity is split and merged, and commands, processes and Redis are killed.
pub(super) fn an_entity_is_split<B>(mut setup: Setup<B>) {
    let stop = AtomicBool::new(false);
    let (topic, config) = (&setup.topic, setup.config.as_str());
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0;
            while !stop.load(Relaxed) {
                let records: Vec<_> = (0..20).map(|uid| read(7 + uid % 2, round + uid)).collect();
                topic.produce(&records);
                round += 20;
                thread::sleep(Duration::from_millis(50));
            }
        });
        let running = StopOnDrop(&stop);
        assert_likes_match_the_model(&mut setup.store, config, 1);
        drop(running);
    });
    let records = wait_until_counted(&setup.store, topic, PARTITIONS);
    wait_until_published(&setup.store, PARTITIONS);
    let reads = records.iter().filter(|record| record.source().is_none());
    assert!(reads.count() > 500);
    assert_equals_records(&setup.api(), &records);
}
