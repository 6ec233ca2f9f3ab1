//! Records that cannot be counted: dead letters with their reasons. Those beside them are counted.

use super::{PARTITIONS, Setup, TOPIC_PARTITIONS, event, read};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{dead_reasons, metric};
use countint_tests::wait_until;
use serde_json::json;

for_each_store! {
    [module cluster]
    records_that_cannot_be_counted_become_dead_letters
}

fn home(key: &str) -> i32 {
    i32::from(TestStore::partition(key, PARTITIONS)) % TOPIC_PARTITIONS
}

fn records_that_cannot_be_counted_become_dead_letters(store: TestStore) {
    let setup = Setup::with(store, "");
    let topic = &setup.topic;
    let (key, good) = read(1, 1);
    let home = self::home(&key);
    let bad: Vec<(i32, Option<&str>, String)> = vec![
        // In the partition of another key.
        ((home + 1) % TOPIC_PARTITIONS, Some(&key), good.clone()),
        // Without a key, or with that of another entity.
        (home, None, good.clone()),
        (home, Some("note:1x"), good.clone()),
        (self::home("note:2"), Some("note:2"), good.clone()),
        (home, Some(&key), "no JSON".to_owned()),
        (home, Some(&key), String::new()),
        (home, Some(&key), "[1, 2]".to_owned()),
        (
            home,
            Some(&key),
            json!({ "etype": "note", "eid": "1" }).to_string(),
        ),
        // A fact of a once metric is in Redis, not in the topic.
        (home, Some(&key), event(1, &json!({ "metric": "like" })).1),
        (home, Some(&key), event(1, &json!({ "metric": "clap" })).1),
        (
            home,
            Some(&key),
            event(1, &json!({ "delta": 1_u64 << 41 })).1,
        ),
    ];
    for (partition, key, value) in &bad {
        topic.produce_to(*partition, *key, value.as_bytes(), &[]);
        topic.produce_to(home, Some("note:1"), good.as_bytes(), &[]);
    }
    let count = bad.len() as u64;
    wait_until("the good records are counted", || {
        setup.api().counts(1)["read"] == count
    });
    let mut reasons = Vec::new();
    wait_until("the others are dead letters", || {
        reasons = dead_reasons(&setup.store.server, &setup.config);
        reasons.len() == bad.len()
    });
    let partitions = reasons.iter().filter(|reason| reason.contains("partition"));
    assert!(partitions.count() >= 1, "{reasons:#?}");
    assert!(
        reasons.iter().any(|reason| reason.contains("once")),
        "{reasons:#?}"
    );
    assert_eq!(setup.api().counts(1)["like"], 0);
    assert_eq!(metric(&setup.api(), "countd_partitions_failed"), 0);
    // Nothing is counted again, or dead again, after a restart.
    let mut setup = setup;
    setup.countd.kill();
    setup.countd.launch();
    setup.topic.produce(&[read(1, 2)]);
    wait_until("counting goes on", || {
        setup.api().counts(1)["read"] == count + 1
    });
    let again = dead_reasons(&setup.store.server, &setup.config);
    assert_eq!(again.len(), bad.len(), "{again:#?}");
}

/// A record with the headers of a copy is never counted, whatever it contains.
#[test]
fn copies_of_other_systems_are_skipped() {
    let setup = Setup::start();
    let (key, value) = read(1, 1);
    let partition = home(&key);
    let headers = [("countd-source", "3"), ("countd-seq", "12")];
    setup
        .topic
        .produce_to(partition, Some(&key), value.as_bytes(), &headers);
    setup
        .topic
        .produce_to(partition, Some(&key), b"no JSON", &headers);
    setup.topic.produce(&[read(1, 2)]);
    setup.assert_exact();
    assert_eq!(setup.api().counts(1)["read"], 1);
    let reasons = dead_reasons(&setup.store.server, &setup.config);
    assert!(reasons.is_empty(), "{reasons:#?}");
}
