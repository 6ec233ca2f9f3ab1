//! Counters with counts by day: what a rebuild corrects, and what it leaves to reconciliation.

use super::setup::{READ, config, corrections, rebuild, wait_until_archived};
use crate::days::setup::{PARTITIONS, history, sum, total};
use crate::reconcile::setup::forge;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{
    Api, Countd, on_note, printed, run, wait_until_days_are_kept, wait_until_drained,
};
use countint_tests::env::TempDir;
use countint_tests::reply;

for_each_store! {
    [module objects plain cluster]
    totals_and_days_follow_a_rebuilt_counter
}

const METRICS: &str = r#"
[metrics.read]
nature = "repeatable"
count = "batched"
daily = true
"#;
/// Each note has as many reads as its number says.
const NOTES: std::ops::RangeInclusive<u64> = 1..=6;

/// The counter of a note, its total, and the sum of its days.
fn numbers(store: &TestStore, api: &Api, note: u64) -> [i64; 3] {
    let eid = note.to_string();
    let count = api.counts(note)["read"].as_i64().expect("a count");
    [
        count,
        total(store, "read", &eid),
        sum(&history(api, "read", &eid)),
    ]
}

fn add_to_total(store: &TestStore, note: u64, delta: i64) {
    let (entity, row) = (format!("note:{note}"), note.to_string());
    let key = store.totals("read", &entity, PARTITIONS);
    let (delta, mut client) = (delta.to_string(), store.server.client());
    match store.has_module {
        true => {
            let table = key.replacen("toth:", "tot:", 1);
            client.call(&["CTAB.INCRBY", &table, &row, "0", &delta])
        }
        false => client.call(&["HINCRBY", &key, &row, &delta]),
    };
}

/// Adds to one of the days.
fn add_to_days(store: &TestStore, note: u64, delta: i64) {
    let entity = format!("note:{note}");
    let key = store.key(&format!("h:agg:read:{entity}"), "", &entity);
    let mut client = store.server.client();
    let mut days = reply::array(client.call(&["HKEYS", &key])).into_iter();
    let day = reply::text(days.next().expect("a day"));
    client.call(&["HINCRBY", &key, &day, &delta.to_string()]);
}

/// The archive tells what a counter has to be, also if all three numbers agree on another one. If the counter is right, a rebuild has
/// nothing to correct, and two of the three numbers tell which one is wrong.
fn totals_and_days_follow_a_rebuilt_counter(store: TestStore) {
    let dir = TempDir::new();
    let config = &config(&dir.path().join("archive"), METRICS);
    let countd = Countd::start(&store.server, config);
    let api = countd.api();
    for note in NOTES {
        for uid in 0..note {
            api.act("read", on_note(note, uid));
        }
    }
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_archived(&store);
    wait_until_days_are_kept(std::slice::from_ref(&store.server), 1);
    for note in NOTES {
        assert_eq!(numbers(&store, &api, note), [note as i64; 3]);
    }
    forge(&store, "note:1", READ, 100);
    forge(&store, "note:2", READ, -2);
    add_to_total(&store, 2, -2);
    add_to_days(&store, 2, -2);
    forge(&store, "note:3", READ, 70);
    add_to_total(&store, 3, 70);
    add_to_days(&store, 3, 70);
    add_to_total(&store, 4, 40);
    add_to_days(&store, 5, 50);
    let (output, report) = rebuild(&store.server, config, &["--from", "earliest"]);
    printed(&output);
    assert_eq!(report["metrics"]["read"]["corrected"], 3, "{report}");
    let corrected = corrections(&store);
    let of = |eid: &str| corrected[&(eid.to_owned(), "read".to_owned())];
    assert_eq!((of("1"), of("2"), of("3")), (-100, 2, -70));
    assert_eq!(corrected.len(), 3);
    for note in [1, 2, 3, 6] {
        assert_eq!(numbers(&store, &api, note), [note as i64; 3]);
    }
    assert_eq!(numbers(&store, &api, 4), [4, 44, 4]);
    assert_eq!(numbers(&store, &api, 5), [5, 5, 55]);
    printed(&run(
        &store.server,
        config,
        &["reconcile", "--all", "--exact"],
    ));
    wait_until_drained(&store.server, PARTITIONS);
    for note in NOTES {
        assert_eq!(numbers(&store, &api, note), [note as i64; 3]);
    }
}
