//! Rounds of the consumers.

use super::setup::{EXACT_ROUNDS, LIKE, PARTITIONS, audit, config, differences, forge};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store, module};
use crate::support::{
    Api, Countd, Settings, metric, on_note, run, set_schema, wait_until_drained, with,
};
use countint_tests::{reply, wait_until};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

for_each_store! {
    [module objects plain cluster]
    a_wrong_now_counter_is_corrected_and_audited
    a_wrong_batched_counter_is_corrected_and_audited
    a_lost_counter_returns
}

fn like(api: &Api, eid: u64, uids: std::ops::Range<u64>) {
    for uid in uids {
        api.act("like", with(on_note(eid, uid), json!({ "author": 7 })));
    }
}

fn a_wrong_now_counter_is_corrected_and_audited(store: TestStore) {
    assert_corrected(&store, "now");
}

fn a_wrong_batched_counter_is_corrected_and_audited(store: TestStore) {
    assert_corrected(&store, "batched");
}

fn assert_corrected(store: &TestStore, count: &str) {
    let countd = Countd::start(&store.server, &config(count, EXACT_ROUNDS));
    let api = countd.api();
    like(&api, 1, 1..4);
    like(&api, 2, 1..3);
    wait_until_drained(&store.server, PARTITIONS);
    forge(store, "note:1", LIKE, 5);
    forge(store, "note:2", LIKE, -2);
    wait_until("both are corrected", || differences(store).len() == 2);
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(api.counts(1)["like"], 3);
    assert_eq!(api.counts(2)["like"], 2);
    assert_eq!(api.user(7)["likesReceived"], 5);
    let entries = audit(store);
    let entry = entries.iter().find(|entry| entry["eid"] == "1");
    let entry = entry.expect("an entry");
    for (field, value) in [
        ("before", "8"),
        ("after", "3"),
        ("difference", "-5"),
        ("etype", "note"),
        ("metric", "like"),
        ("source", "reconcile"),
        ("traceId", "-"),
    ] {
        assert_eq!(entry[field], value, "{field}");
    }
    assert_eq!(entry["key"], store.counters("v1", "note:1", PARTITIONS));
    assert!(entry["round"] != "0" && entry.contains_key("ts"));
    wait_until("the corrections are in the metrics", || {
        metric(&api, "countd_corrections_total{source=\"reconcile\"}") == 2
    });
    assert_eq!(compared(&api, "1", "10"), 2);
    assert_eq!(compared(&api, "10", "+Inf"), 0);
    let sum = "countd_counter_difference_sum{source=\"reconcile\"}";
    assert_eq!(metric(&api, sum), 7);
}

/// The number of exact comparisons with a difference above `from` and up to `to`, which are bounds of the histogram.
fn compared(api: &Api, from: &str, to: &str) -> u64 {
    let up_to = |bound: &str| {
        let name = "countd_counter_difference_bucket";
        metric(
            api,
            &format!("{name}{{source=\"reconcile\",le=\"{bound}\"}}"),
        )
    };
    // It grows between two requests.
    let below = up_to(from);
    up_to(to) - below
}

fn a_lost_counter_returns(store: TestStore) {
    let countd = Countd::start(&store.server, &config("batched", EXACT_ROUNDS));
    let api = countd.api();
    like(&api, 1, 1..4);
    for uid in 1..6 {
        api.act("fav", on_note(1, uid));
    }
    wait_until_drained(&store.server, PARTITIONS);
    let key = store.counters("v1", "note:1", PARTITIONS);
    store.server.client().ok(&format!("DEL {key}"));
    wait_until("the counters return", || {
        let counts = api.counts(1);
        counts["like"] == 3 && counts["fav"] == 5
    });
    assert_eq!(api.user(7)["likesReceived"], 3);
}

#[test]
fn thresholds_leave_small_differences() {
    let store = module();
    let settings = "interval_seconds = 1\nsample = 1\nmin_difference = 10\nmin_percent = 50";
    let countd = Countd::start(&store.server, &config("now", settings));
    let api = countd.api();
    like(&api, 1, 1..21);
    like(&api, 2, 1..21);
    wait_until_drained(&store.server, PARTITIONS);
    // 10 of 20 is not above 50 %, 11 is above 10.
    forge(&store, "note:1", LIKE, 10);
    forge(&store, "note:2", LIKE, 11);
    wait_until("one is corrected", || differences(&store).len() == 1);
    assert_eq!(api.counts(1)["like"], 30);
    assert_eq!(api.counts(2)["like"], 20);
    // Each round compares the one that is left again.
    wait_until("the differences are in the metrics", || {
        compared(&api, "10", "100") == 1 && compared(&api, "1", "10") > 1
    });
    assert_eq!(compared(&api, "100", "+Inf"), 0);
}

#[test]
fn every_entity_is_reached_in_sample_rounds() {
    let store = module();
    let settings = "interval_seconds = 1\nsample = 4\nmin_difference = 0\nmin_percent = 0";
    let countd = Countd::start(&store.server, &config("now", settings));
    let api = countd.api();
    let mut client = store.server.client();
    // Rows without facts, which only the tables show.
    let rows: Vec<Vec<String>> = (1..=2_000_u64)
        .map(|eid| {
            let key = store.counters("v1", &format!("note:{eid}"), PARTITIONS);
            let words = [
                "CTAB.BATCHINCR",
                &key,
                &eid.to_string(),
                "LEN",
                "5",
                "1",
                "2",
            ];
            words.map(str::to_owned).to_vec()
        })
        .collect();
    client.pipeline(&rows);
    wait_until("all are corrected", || differences(&store).len() == 2_000);
    // A round that does not finish in its interval visits some partitions in the next one.
    let mut rounds: BTreeMap<u16, BTreeSet<String>> = BTreeMap::new();
    for entry in audit(&store) {
        let partition = TestStore::partition(&format!("note:{}", entry["eid"]), PARTITIONS);
        let of_partition = rounds.entry(partition).or_default();
        of_partition.insert(entry["round"].clone());
    }
    assert!(
        rounds
            .values()
            .all(|rounds| (2..=4).contains(&rounds.len())),
        "{rounds:?}"
    );
    assert_eq!(api.counts(1_234)["like"], 0);
}

/// Tests of counters that only a scan of the keys shows.
mod of_keys {
    use super::*;

    for_each_store! {
        [objects plain]
        every_key_is_reached_in_sample_rounds
    }
}

fn every_key_is_reached_in_sample_rounds(store: TestStore) {
    const OBJECTS: u64 = 500;
    const SAMPLE: u64 = 4;
    let settings =
        format!("interval_seconds = 1\nsample = {SAMPLE}\nmin_difference = 0\nmin_percent = 0");
    let countd = Countd::start(&store.server, &config("now", &settings));
    let mut client = store.server.client();
    // Objects without facts.
    let objects: Vec<Vec<String>> = (1..=OBJECTS)
        .map(|eid| {
            let key = store.counters("v1", &format!("note:{eid}"), PARTITIONS);
            let command = match store.has_module {
                true => format!("CINT.BATCHINCR {key} LEN 5 {LIKE} 2"),
                false => format!("BITFIELD {key} SET u40 #4 0 SET u40 #{LIKE} 2"),
            };
            command.split(' ').map(str::to_owned).collect()
        })
        .collect();
    let before = round(&store);
    client.pipeline(&objects);
    wait_until("all are corrected", || {
        differences(&store).len() as u64 == OBJECTS
    });
    let entries = audit(&store);
    let rounds: BTreeSet<&str> = entries
        .iter()
        .map(|entry| entry["round"].as_str())
        .collect();
    assert!(rounds.len() >= 2, "a round compares a sample: {rounds:?}");
    // The first sweep that finds an object may have begun at the pace of sweeps without objects, its last round ends early, and a round may
    // begin while the objects are created.
    assert!(
        last_round(&store) <= before + SAMPLE + 3,
        "{before}: {rounds:?}"
    );
    let ids: BTreeSet<&str> = entries.iter().map(|entry| entry["eid"].as_str()).collect();
    assert_eq!(ids.len() as u64, OBJECTS);
    assert_eq!(countd.api().counts(123)["like"], 0);
    assert_invariants(&store.server, &config("now", &settings));
}

/// The number of the last round that has begun.
fn round(store: &TestStore) -> u64 {
    let round = store.server.client().run("HGET countd:reconcile round");
    round.trim_matches('"').parse().unwrap_or(0)
}

/// The last round that has corrected a counter.
fn last_round(store: &TestStore) -> u64 {
    let entries = audit(store);
    let rounds = entries.iter().map(|entry| entry["round"].parse::<u64>());
    let rounds: Vec<u64> = rounds.map(|round| round.expect("a number")).collect();
    rounds.into_iter().max().expect("a correction")
}

/// Sweeps over the keys of a server without objects take several rounds.
#[test]
fn lost_rows_that_nobody_reads_return() {
    const ENTITIES: u64 = 40;
    let store = module();
    let countd = Countd::start(&store.server, &config("now", EXACT_ROUNDS));
    let api = countd.api();
    for eid in 1..=ENTITIES {
        like(&api, eid, 1..3);
    }
    wait_until_drained(&store.server, PARTITIONS);
    let mut client = store.server.client();
    wait_until("a sweep has found no object", || {
        let state = client.run("HGET countd:reconcile keys:0");
        state.trim_matches('"').ends_with("/0/0")
    });
    // A table that has lost most of its rows is rebuilt at once, so each loses one of several.
    let mut tables: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for eid in 1..=ENTITIES {
        let table = store.counters("v1", &format!("note:{eid}"), PARTITIONS);
        tables.entry(table).or_default().push(eid);
    }
    tables.retain(|_, eids| eids.len() > 1);
    assert!(!tables.is_empty());
    let lost = || tables.iter().map(|(table, eids)| (table, eids[0]));
    let before = round(&store);
    for (table, eid) in lost() {
        client.ok(&format!("CTAB.DEL {table} {eid}"));
    }
    for (table, eid) in lost() {
        wait_until("the row is back", || {
            client.run(&format!("CTAB.GET {table} {eid} {LIKE}")) == "(integer) 2"
        });
    }
    // Twice the rounds of a sample of 1, the one that was under way, and one that ends a sweep early.
    let last = last_round(&store);
    assert!((before..=before + 4).contains(&last), "{before}: {last}");
}

#[test]
fn facts_of_another_type_hide_no_difference_of_other_entities() {
    let store = module();
    let countd = Countd::start(&store.server, &config("now", EXACT_ROUNDS));
    let api = countd.api();
    like(&api, 1, 1..3);
    like(&api, 2, 1..3);
    wait_until_drained(&store.server, PARTITIONS);
    store.server.client().ok("SET rbm:like:note:1 damaged");
    forge(&store, "note:2", LIKE, 5);
    wait_until("the counter is corrected", || differences(&store) == ["-5"]);
    assert_eq!(api.counts(2)["like"], 2);
}

#[test]
fn one_process_does_a_partition() {
    let store = module();
    let config = config("now", EXACT_ROUNDS);
    set_schema(&store.server, &config);
    let settings = |command| Settings {
        command,
        config: &config,
    };
    let serve = Countd::with(&store.server, &settings("serve"));
    let _consumers = [(); 3].map(|()| Countd::with(&store.server, &settings("consume")));
    let api = serve.api();
    like(&api, 1, 1..4);
    for eid in 2..40 {
        like(&api, eid, 1..2);
    }
    wait_until_drained(&store.server, PARTITIONS);
    for eid in 1..40 {
        forge(&store, &format!("note:{eid}"), LIKE, 3);
    }
    wait_until("all are corrected", || differences(&store).len() >= 39);
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for entry in audit(&store) {
        assert_eq!(entry["difference"], "-3", "{entry:?}");
        *found.entry(entry["eid"].clone()).or_default() += 1;
    }
    assert_eq!(found.len(), 39);
    assert!(found.values().all(|count| *count == 1), "{found:?}");
}

#[test]
fn unconverged_after_three_rounds() {
    assert_unconverged("now");
}

/// Each round checks such a counter more than once: because it differed, and because the entity is hot.
#[test]
fn unconverged_after_three_rounds_of_batched_counters() {
    assert_unconverged("batched");
}

fn assert_unconverged(count: &str) {
    let store = module();
    let countd = Countd::start(&store.server, &config(count, EXACT_ROUNDS));
    let api = countd.api();
    like(&api, 1, 1..3);
    wait_until_drained(&store.server, PARTITIONS);
    // Something changes the counter again after each correction.
    forge(&store, "note:1", LIKE, 4);
    let (mut corrected, mut uid) = (0, 2);
    wait_until("the counter is reported", || {
        uid += 1;
        like(&api, 1, uid..uid + 1);
        let found = differences(&store).len();
        if found > corrected {
            corrected = found;
            forge(&store, "note:1", LIKE, 4);
        }
        metric(&api, "countd_unconverged") == 1
    });
    assert!(corrected >= 3);
    wait_until("it converges", || metric(&api, "countd_unconverged") == 0);
    assert_eq!(api.counts(1)["like"], uid);
}

#[test]
fn processes_with_other_settings_stop_checks() {
    let store = module();
    let own = &config("now", EXACT_ROUNDS);
    let countd = Countd::start(&store.server, own);
    let api = countd.api();
    like(&api, 1, 1..4);
    forge(&store, "note:1", LIKE, 5);
    wait_until("it is corrected", || differences(&store).len() == 1);
    assert_eq!(metric(&api, "countd_reconcile_stopped"), 0);
    let counting = || {
        let field = store.server.client().ok("HGET countd:layout counting");
        reply::text(field)
    };
    let settings = counting();
    let other = &config("batched", EXACT_ROUNDS);
    let mut serve = Countd::with(
        &store.server,
        &Settings {
            command: "serve",
            config: other,
        },
    );
    // No process compares counters once the other one acts.
    assert_eq!(counting(), "");
    let other_api = serve.api();
    like(&other_api, 1, 10..15);
    forge(&store, "note:1", LIKE, 7);
    let stopped = || countd.log().matches("counters are not compared").count();
    wait_until("rounds are skipped", || stopped() >= 2);
    assert_eq!(metric(&api, "countd_reconcile_stopped"), 1);
    // A sweep would take a second.
    wait_until("the age of the sweep grows", || {
        metric(&api, "countd_reconcile_sweep_seconds") >= 4
    });
    let check = run(&store.server, own, &["check"]);
    let check = String::from_utf8_lossy(&check.stdout).into_owned();
    let named = format!("note: process {}-", serve.process_id());
    assert!(check.contains(&named), "{check}");
    like(&other_api, 1, 15..17);
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(api.counts(1)["like"], 17);
    let refused = run(&store.server, other, &["reconcile", "--all"]);
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(differences(&store).len(), 1);
    serve.stop();
    wait_until("it is corrected again", || differences(&store).len() == 2);
    assert_eq!(counting(), settings);
    assert_eq!(api.counts(1)["like"], 10);
    assert_eq!(differences(&store), ["-5", "-7"]);
    wait_until("rounds go on", || {
        metric(&api, "countd_reconcile_stopped") == 0
            && metric(&api, "countd_reconcile_sweep_seconds") < 4
    });
    let check = run(&store.server, own, &["check"]);
    let check = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(!check.contains("other settings"), "{check}");
}

/// A replay of the archive knows that a correction is no event.
#[test]
fn a_correction_is_in_the_journal_of_an_archived_log() {
    let store = module();
    let dir = countint_tests::env::TempDir::new();
    let dir = dir.path().display();
    let config = config("now", EXACT_ROUNDS);
    let config = format!("{config}[log.archive]\ndir = \"{dir}\"\nflush_ms = 10\n");
    let countd = Countd::start(&store.server, &config);
    let api = countd.api();
    like(&api, 1, 1..4);
    wait_until_drained(&store.server, PARTITIONS);
    forge(&store, "note:1", LIKE, 5);
    wait_until("it is corrected", || differences(&store) == ["-5"]);
    let log = store.log(TestStore::partition("note:1", PARTITIONS));
    let entries = reply::array(store.server.client().call(&["XRANGE", &log, "-", "+"]));
    let journals = entries.into_iter().filter_map(|entry| {
        let fields = reply::array(reply::array(entry).pop()?);
        let fields: Vec<String> = fields.into_iter().map(reply::text).collect();
        (fields[0] == "j").then(|| fields[1].clone())
    });
    let journals: Vec<String> = journals.collect();
    assert_eq!(journals.len(), 1, "{journals:?}");
    assert!(journals[0].contains(r#""why":"repair""#), "{journals:?}");
    assert!(journals[0].contains(r#"[["like",-5]]"#), "{journals:?}");
    wait_until("the credit follows", || api.user(7)["likesReceived"] == 3);
}
