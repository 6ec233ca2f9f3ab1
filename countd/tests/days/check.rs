//! The check of the counter, the total and the days of an entity.

use super::setup::{CONFIG, METRICS, PARTITIONS, assert_days_add_up, history};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Countd, wait_until_drained};
use countd::domain::config::Config;
use countd::domain::ids::{Entity, Id, Name};
use countd::redis::layout::Purpose;
use countd::redis::store::Store;
use countd::repair::days::{CheckedDays, DaysCheck, check_days};
use countd::storage::catalog::Catalog;
use countint_tests::{reply, wait_until};
use serde_json::json;
use std::sync::Arc;

for_each_store! {
    [module objects plain cluster]
    a_dropped_day_is_corrected_in_history
    a_forged_counter_follows_the_total
    a_lost_total_follows_the_others
    right_numbers_stay
}

/// A countd with three events of each metric on a note.
fn start(store: &TestStore, eid: &str) -> Countd {
    let countd = Countd::start(&store.server, CONFIG);
    for uid in 1..=3 {
        for metric in METRICS {
            let action = json!({ "etype": "note", "eid": eid, "uid": uid, "author": 9 });
            countd.api().act(metric, action);
        }
    }
    wait_until_drained(&store.server, PARTITIONS);
    let mut client = store.server.client();
    wait_until("days are kept", || {
        let states = reply::array(client.call(&["HVALS", "countd:days-init"]));
        let mut states = states.into_iter().map(reply::text);
        states.len() == METRICS.len() && states.all(|state| state.ends_with("/on"))
    });
    countd
}

/// Checks a metric of a note.
fn check(store: &TestStore, metric: &str, eid: &str, expected: Option<u64>) -> CheckedDays {
    let url = format!("redis://127.0.0.1:{}/", store.server.port());
    let config = format!("[redis]\nurl = \"{url}\"\n{CONFIG}");
    let config = Config::parse(&config).expect("a configuration");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let redis = Store::connect(&config, Purpose::Use)
            .await
            .expect("a store");
        let catalog = Catalog::new(Arc::new(config), redis.clone());
        let entity = Entity {
            etype: Name::new("note").expect("a name"),
            eid: Id::new(eid).expect("an ID"),
        };
        let check = DaysCheck {
            expected,
            min_difference: 1,
            trace_id: "a-test",
        };
        let checked = check_days(&redis, &catalog, (metric, &entity), &check).await;
        checked.expect("a check").expect("a metric with days")
    })
}

/// Adds to the counter of a metric, without its days.
fn forge_counter(store: &TestStore, eid: &str, idx: u64, delta: i64) {
    let key = store.counters("v1", &format!("note:{eid}"), PARTITIONS);
    let mut client = store.server.client();
    let (idx, delta) = (idx.to_string(), delta.to_string());
    let is_row = store.has_tables && eid.parse::<u64>().is_ok();
    match (store.has_module, is_row) {
        (true, true) => client.call(&["CTAB.INCRBY", &key, eid, &idx, &delta]),
        (true, false) => client.call(&["CINT.INCRBY", &key, &idx, &delta]),
        _ => client.call(&[
            "BITFIELD",
            &key,
            "INCRBY",
            "u40",
            &format!("#{idx}"),
            &delta,
        ]),
    };
}

/// The differences of the audit, over all partitions.
fn differences(store: &TestStore) -> Vec<(String, i64)> {
    let mut client = store.server.client();
    let mut found = Vec::new();
    for key in reply::array(client.call(&["KEYS", "x:audit:cntfix*"])) {
        for entry in reply::array(client.call(&["XRANGE", &reply::text(key), "-", "+"])) {
            let fields = reply::array(reply::array(entry)[1].clone());
            let fields: Vec<String> = fields.into_iter().map(reply::text).collect();
            let value = |name: &str| {
                let mut pairs = fields.chunks(2);
                pairs.find(|pair| pair[0] == name).expect("a field")[1].clone()
            };
            assert_eq!(value("source"), "days");
            assert_eq!(value("traceId"), "a-test");
            let difference = value("difference").parse().expect("a number");
            found.push((value("number"), difference));
        }
    }
    found
}

fn right_numbers_stay(store: TestStore) {
    let countd = start(&store, "1");
    for metric in METRICS {
        let checked = check(&store, metric, "1", None);
        let (number, none) = (3, 0);
        let expected = CheckedDays {
            counter: number,
            total: number,
            days: number,
            target: number,
            corrected: none,
            is_ambiguous: false,
        };
        assert_eq!(checked, expected, "{metric}");
    }
    assert_eq!(differences(&store), []);
    assert_days_add_up(&store, &countd.api(), "1");
}

fn a_dropped_day_is_corrected_in_history(store: TestStore) {
    for eid in ["1", "a.7"] {
        let countd = start(&store, eid);
        let mut client = store.server.client();
        let before = differences(&store).len();
        let key = store.key(
            &format!("h:agg:comment:note:{eid}"),
            "",
            &format!("note:{eid}"),
        );
        assert_eq!(reply::int(client.call(&["DEL", &key])), 1);
        let checked = check(&store, "comment", eid, None);
        assert_eq!(
            (checked.counter, checked.days, checked.corrected),
            (3, 0, 1)
        );
        assert_eq!(differences(&store).len() - before, 1);
        assert!(differences(&store).contains(&("days".to_owned(), 3)));
        assert_days_add_up(&store, &countd.api(), eid);
        // The day is not known any more.
        let history = history(&countd.api(), "comment", eid);
        assert_eq!(history["before"], 3, "{history}");
    }
}

fn a_forged_counter_follows_the_total(store: TestStore) {
    for eid in ["1", "a.7"] {
        let countd = start(&store, eid);
        // The metrics read and like, of which like feeds the author.
        for (metric, idx) in [("read", 0), ("like", 1)] {
            forge_counter(&store, eid, idx, 1_000);
            let checked = check(&store, metric, eid, None);
            assert_eq!((checked.counter, checked.target), (1_003, 3));
            assert_eq!(checked.corrected, 1);
        }
        wait_until_drained(&store.server, PARTITIONS);
        assert_days_add_up(&store, &countd.api(), eid);
    }
    let differences = differences(&store);
    assert_eq!(differences.len(), 4, "{differences:?}");
    assert!(
        differences
            .iter()
            .all(|(number, difference)| number == "counter" && *difference == -1_000)
    );
    let url = Countd::start(&store.server, CONFIG);
    assert_eq!(url.api().user(9)["likesReceived"], 6, "the credit follows");
}

fn a_lost_total_follows_the_others(store: TestStore) {
    let countd = start(&store, "1");
    let mut client = store.server.client();
    for pattern in ["tot:*", "toth:*"] {
        for key in reply::array(client.call(&["KEYS", pattern])) {
            client.call(&["DEL", &reply::text(key)]);
        }
    }
    for metric in METRICS {
        let checked = check(&store, metric, "1", None);
        assert_eq!(
            (checked.total, checked.target, checked.corrected),
            (0, 3, 1)
        );
    }
    assert_days_add_up(&store, &countd.api(), "1");
    // All differ: the facts decide, or the total does.
    let key = store.key("h:agg:like:note:1", "", "note:1");
    client.call(&["DEL", &key]);
    forge_counter(&store, "1", 1, 50);
    let checked = check(&store, "like", "1", Some(3));
    assert_eq!((checked.counter, checked.total, checked.days), (53, 3, 0));
    assert_eq!((checked.corrected, checked.is_ambiguous), (2, false));
    let key = store.key("h:agg:read:note:1", "", "note:1");
    client.call(&["DEL", &key]);
    forge_counter(&store, "1", 0, 50);
    let checked = check(&store, "read", "1", None);
    assert_eq!((checked.target, checked.is_ambiguous), (3, true));
    assert_days_add_up(&store, &countd.api(), "1");
}
