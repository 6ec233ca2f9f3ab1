//! `countd rebuild` from the topic: counters that nothing else has are computed again from its records and from the copies of streams.

use super::{PARTITIONS, Setup, TOPIC_PARTITIONS, envelope, event, read};
use crate::reconcile::setup::forge;
use crate::replay::setup::{READ, corrections, leftovers, rebuild};
use crate::split::{merge, split};
use crate::support::invariants::assert_invariants;
use crate::support::kafka::{Brokers, Topic, wait_until_counted, wait_until_published};
use crate::support::stores::{TestStore, for_each_store, module};
use crate::support::workload::StopOnDrop;
use crate::support::{Api, Running, on_note, printed, run, with};
use countint_tests::env::TempDir;
use countint_tests::wait_until;
use serde_json::{Value as Json, json};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

for_each_store! {
    [module objects plain cluster]
    sabotaged_counters_are_rebuilt_from_the_topic
}

/// Comments change their counter at once, so their events are in streams.
pub(super) const METRICS: &str = r#"
[limits]
user = { per_second = 100000, burst = 1000000 }
[reconcile]
enabled = false
[metrics.read]
nature = "repeatable"
count = "batched"
[metrics.comment]
nature = "repeatable"
count = "now"
[metrics.repost]
nature = "repeatable"
count = "batched"
[metrics.like]
nature = "once"
count = "now"
"#;
pub(super) const EARLIEST: [&str; 2] = ["--from", "earliest"];
const DRY: [&str; 3] = ["--from", "earliest", "--dry-run"];
const NOTES: u64 = 20;

/// Events of every kind: in the topic and in streams, counted, repeated and refused.
fn act(setup: &Setup, round: u64) {
    let api = setup.api();
    let mut records = Vec::new();
    for note in 0..NOTES {
        records.extend((0..note + 3).map(|uid| read(note, 100 * round + uid)));
        // The same ID counts once, also in a later round.
        let (key, value) = envelope(&format!("e-{note}"), note);
        let repost = value.replace("\"comment\"", "\"repost\"");
        records.extend([(key.clone(), repost.clone()), (key, repost)]);
        records.push(event(note, &json!({ "metric": "like" })));
        records.push(event(note, &json!({ "metric": "clap" })));
        records.push(event(note, &json!({ "counted": true })));
    }
    setup.topic.produce(&records);
    let elsewhere = (0..TOPIC_PARTITIONS).map(|partition| (partition, read(1, 7).1));
    for (partition, value) in elsewhere {
        setup
            .topic
            .produce_to(partition, Some("note:1x"), value.as_bytes(), &[]);
    }
    for note in 0..NOTES {
        api.ok(api.post("/action/comment", &on_note(note, round)));
        api.ok(api.post("/action/like", &on_note(note, round)));
        let keyed = json!({ "idempotencyKey": format!("{round}-{note}") });
        let keyed = with(on_note(note, 5), keyed);
        for _ in 0..2 {
            api.ok(api.post("/action/read", &keyed));
        }
    }
    let adjust =
        json!({ "etype": "note", "eid": 1, "metric": "comment", "add": 70, "reason": "-" });
    api.ok(api.post("/counter/adjust", &adjust));
    setup.drain();
    let reset = json!({ "etype": "note", "eid": 2, "metric": "read" });
    api.ok(api.post("/counter/reset", &reset));
    setup.drain();
}

pub(super) fn counts(api: &Api) -> Vec<Json> {
    (0..NOTES).map(|note| api.counts(note)).collect()
}

#[track_caller]
pub(super) fn assert_right(setup: &Setup, from: &[&str]) {
    let (output, report) = rebuild(&setup.store.server, &setup.config, from);
    printed(&output);
    for metric in ["read", "comment", "repost"] {
        assert_eq!(report["metrics"][metric]["differing"], 0, "{report}");
    }
}

fn sabotaged_counters_are_rebuilt_from_the_topic(store: TestStore) {
    let setup = Setup::with(store, METRICS);
    let api = setup.api();
    for round in 0..3 {
        act(&setup, round);
    }
    // Some copies are in the topic, and others not yet.
    assert_right(&setup, &EARLIEST);
    wait_until_published(&setup.store, PARTITIONS);
    assert_right(&setup, &EARLIEST);
    copy_again(&setup);
    assert_right(&setup, &EARLIEST);
    assert!(corrections(&setup.store).is_empty());
    let before = counts(&api);
    for note in 5..10 {
        forge(&setup.store, &format!("note:{note}"), READ, 1_000);
    }
    forge(&setup.store, "note:11", READ, -3);
    let (output, report) = rebuild(&setup.store.server, &setup.config, &DRY);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(report["metrics"]["read"]["differing"], 6, "{report}");
    assert!(corrections(&setup.store).is_empty());
    let (output, report) = rebuild(&setup.store.server, &setup.config, &EARLIEST);
    printed(&output);
    assert_eq!(report["metrics"]["read"]["corrected"], 6, "{report}");
    assert_eq!(report["metrics"].get("like"), None, "{report}");
    let corrected = corrections(&setup.store);
    let of = |eid: &str| corrected[&(eid.to_owned(), "read".to_owned())];
    assert_eq!((of("5"), of("11")), (-1_000, 3));
    assert_eq!(corrected.len(), 6);
    wait_until("counts are as they were", || counts(&api) == before);
    assert_eq!(leftovers(&setup.store), [""; 0]);
    act(&setup, 3);
    assert_right(&setup, &EARLIEST);
    assert_invariants(&setup.store.server, &setup.config);
}

/// Lets the last entries of each stream be copied again, as after a crash between the copies and the record of them.
fn copy_again(setup: &Setup) {
    let mut client = setup.store.server.client();
    for partition in 0..PARTITIONS {
        let positions = setup.store.positions(partition);
        let field = format!("published:{partition}");
        let published = client.run(&format!("HGET {positions} {field}"));
        let published: u64 = published.trim_matches('"').parse().unwrap_or(1);
        if published > 4 {
            client.ok(&format!("HSET {positions} {field} {}", published - 3));
        }
    }
    wait_until_published(&setup.store, PARTITIONS);
}

/// What was counted before an erasure is no part of the counters, in whatever order streams and topic have it.
#[test]
fn erased_entities_count_from_their_erasure_on() {
    let setup = Setup::with(module(), METRICS);
    let api = setup.api();
    for round in 0..3 {
        act(&setup, round);
        let (status, job) = api.delete("/entity/note/7");
        assert_eq!(status, 202, "{job}");
        let id = job["id"].as_str().expect("an ID").to_owned();
        wait_until("the entity is erased", || {
            api.ok(api.get(&format!("/jobs/{id}")))["state"] == "done"
        });
        setup.topic.produce(&[read(7, 1), read(7, 2)]);
        api.ok(api.post("/action/comment", &on_note(7, round)));
        setup.drain();
        assert_eq!(api.counts(7)["read"], 2);
        assert_right(&setup, &EARLIEST);
    }
    forge(&setup.store, "note:7", READ, 50);
    printed(&rebuild(&setup.store.server, &setup.config, &EARLIEST).0);
    assert_eq!(api.counts(7)["read"], 2);
    assert_eq!(corrections(&setup.store).len(), 1);
}

/// Records and entries that are not counted yet are no difference, and are counted later.
#[test]
fn a_rebuild_needs_no_consumer() {
    let mut setup = Setup::with(module(), METRICS);
    act(&setup, 0);
    setup.countd.kill();
    forge(&setup.store, "note:4", READ, 9);
    setup
        .topic
        .produce(&(0..500).map(|uid| read(4, uid)).collect::<Vec<_>>());
    let (output, report) = rebuild(&setup.store.server, &setup.config, &EARLIEST);
    printed(&output);
    assert_eq!(report["metrics"]["read"]["differing"], 1, "{report}");
    setup.countd.launch();
    setup.drain();
    // Seven records and one keyed action.
    assert_eq!(setup.api().counts(4)["read"], 508);
    assert_right(&setup, &EARLIEST);
}

/// Reads and comments are counted at the entity, and likes at its shards.
#[test]
fn counters_of_a_split_entity_are_rebuilt() {
    let setup = Setup::with(module(), METRICS);
    act(&setup, 0);
    split(&setup.store.server, &setup.config);
    act(&setup, 1);
    assert_right(&setup, &EARLIEST);
    let before = setup.api().counts(7);
    assert_eq!(before["like"], 2);
    for add in [1_000, -3] {
        forge(&setup.store, "note:7", READ, add);
        let (output, report) = rebuild(&setup.store.server, &setup.config, &EARLIEST);
        printed(&output);
        assert_eq!(report["metrics"]["read"]["corrected"], 1, "{report}");
        assert_eq!(setup.api().counts(7), before);
    }
    merge(&setup.store.server, &setup.config);
    act(&setup, 2);
    assert_right(&setup, &EARLIEST);
    assert_eq!(setup.api().counts(7)["like"], 3);
    assert_invariants(&setup.store.server, &setup.config);
}

/// A reading of the topic that was killed begins again, without what it has added.
#[test]
fn an_interrupted_reading_of_the_topic_begins_again() {
    const MANY: u64 = 12_000;
    let setup = Setup::with(module(), METRICS);
    let records: Vec<_> = (0..MANY).map(|note| read(note, 1)).collect();
    setup.topic.produce(&records);
    setup.drain();
    let positions = setup.store.key("countd:rebuild", ":pos", "note:1");
    let mut client = setup.store.server.client();
    let mut interrupted = false;
    for _ in 0..20 {
        let arguments = [&["rebuild", "--restart"], &EARLIEST[..]].concat();
        let running = Running::start(&setup.store.server, &setup.config, &arguments);
        let mut parts = 0;
        wait_until("a part is added", || {
            let stored = client.run(&format!("HGET {positions} parts"));
            parts = stored.trim_matches('"').parse().unwrap_or(0);
            // Or all parts are.
            parts > 0 || client.run(&format!("HEXISTS {positions} 0")).contains('1')
        });
        running.kill();
        let stored = client.run(&format!("HGET {positions} parts"));
        interrupted = stored.trim_matches('"') != "0" && stored.contains('"');
        if interrupted {
            break;
        }
    }
    assert!(interrupted, "each rebuild has read the topic to its end");
    forge(&setup.store, "note:5", READ, 1_000);
    let (output, report) = rebuild(&setup.store.server, &setup.config, &EARLIEST);
    printed(&output);
    assert_eq!(report["metrics"]["read"]["differing"], 1, "{report}");
    assert_eq!(leftovers(&setup.store), [""; 0]);
    setup.assert_exact();
}

/// Acts until it is stopped.
fn load(brokers: &str, api: &Api, seed: u64, stop: &AtomicBool) {
    let producer = Topic::new(brokers, &[]);
    let mut round = seed;
    while !stop.load(Relaxed) {
        // The mock cluster removes the first records of a partition when it has 10,000.
        if round < seed + 20_000 {
            let records: Vec<_> = (0..40).map(|i| read(i % NOTES, round + i)).collect();
            producer.produce(&records);
        }
        thread::sleep(Duration::from_millis(50));
        for note in 0..5 {
            // A rejected action changes nothing.
            let _ = api.try_post("/action/comment", &on_note(note, round).to_string());
            let _ = api.try_post("/action/like", &on_note(note, round).to_string());
        }
        round += 40;
    }
}

/// Rebuilds are killed at any moment, while consumers join and leave. No right counter changes, and each wrong one by the right difference.
#[test]
fn rebuilds_under_load_change_wrong_counters_only() {
    let setup = Setup::with(module(), METRICS);
    act(&setup, 0);
    let (api, stop) = (setup.api(), AtomicBool::new(false));
    let (brokers, mut forged) = (setup.brokers.addresses(), 0);
    thread::scope(|scope| {
        let stopping = StopOnDrop(&stop);
        scope.spawn(|| load(&brokers, &api, 1_000, &stop));
        for step in 0..3_u64 {
            let other = setup.another("consume");
            for note in 6..9 {
                forge(
                    &setup.store,
                    &format!("note:{}", note + 3 * step),
                    READ,
                    5_000,
                );
                forged += 1;
            }
            let arguments = [&["rebuild"], &EARLIEST[..]].concat();
            let running = Running::start(&setup.store.server, &setup.config, &arguments);
            thread::sleep(Duration::from_millis(60 + 150 * step));
            running.kill();
            drop(other);
            printed(&rebuild(&setup.store.server, &setup.config, &EARLIEST).0);
        }
        drop(stopping);
    });
    let corrected = corrections(&setup.store);
    assert!(corrected.values().all(|of| *of == -5_000), "{corrected:?}");
    assert_eq!(corrected.len(), forged);
    setup.drain();
    assert_right(&setup, &DRY);
    assert_invariants(&setup.store.server, &setup.config);
}

/// Redis comes back with an older state, in which offsets are used again: copies of what was lost are no part of the counters.
#[test]
fn lost_writes_of_redis_are_not_rebuilt() {
    let mut setup = Setup::with(module(), METRICS);
    setup.store.server.client().ok("CONFIG SET appendonly no");
    setup.store.server.configure("appendonly no");
    for round in 0..3 {
        act(&setup, 2 * round);
        setup.store.server.client().ok("SAVE");
        // Counted, copied, and lost.
        let api = setup.api();
        for note in 0..NOTES {
            api.ok(api.post("/action/comment", &on_note(note, 77)));
        }
        setup.drain();
        wait_until_published(&setup.store, PARTITIONS);
        forge(&setup.store, "note:3", READ, 1_000);
        let arguments = [&["rebuild"], &EARLIEST[..]].concat();
        let running = Running::start(&setup.store.server, &setup.config, &arguments);
        thread::sleep(Duration::from_millis(50 + 150 * round));
        setup.store.server.kill();
        setup.store.server.start_again();
        wait_until("Redis is used again", || {
            let action = on_note(6, 1).to_string();
            let posted = setup.api().try_post("/action/comment", &action);
            posted.is_ok_and(|(status, _)| status == 200)
        });
        running.kill();
        setup.drain();
        let mut done = None;
        wait_until("the counters are compared", || {
            let (output, report) = rebuild(&setup.store.server, &setup.config, &EARLIEST);
            done = output.status.success().then_some(report);
            done.is_some()
        });
        assert_right(&setup, &EARLIEST);
    }
    assert!(corrections(&setup.store).values().all(|of| *of == -1_000));
    assert_invariants(&setup.store.server, &setup.config);
}

pub(super) fn baseline(config: &str, store: &TestStore, dir: &TempDir) -> String {
    let dir = dir.path().to_str().expect("a text");
    let arguments = ["archive", "baseline", "--json", "--archive", dir];
    let report = printed(&run(&store.server, config, &arguments));
    let report: Json = serde_json::from_str(&report).expect("a report");
    report["name"].as_str().expect("a name").to_owned()
}

#[test]
fn a_rebuild_begins_with_a_baseline() {
    let setup = Setup::with(module(), METRICS);
    act(&setup, 0);
    let dir = TempDir::new();
    let name = baseline(&setup.config, &setup.store, &dir);
    act(&setup, 1);
    let before = counts(&setup.api());
    forge(&setup.store, "note:5", READ, 1_000);
    let from = [
        "--from",
        &name,
        "--archive",
        dir.path().to_str().expect("a text"),
    ];
    let (output, report) = rebuild(&setup.store.server, &setup.config, &from);
    printed(&output);
    assert_eq!(report["metrics"]["read"]["corrected"], 1, "{report}");
    assert_eq!(counts(&setup.api()), before);
    assert_right(&setup, &from);
}

/// Kafka's `DeleteRecords` removes records as retention does. A rebuild refuses, with their number.
pub(super) fn records_are_removed_before_a_rebuild(setup: Setup<&Brokers>) {
    setup.produce(1);
    setup.assert_exact();
    forge(&setup.store, "note:5", READ, 1_000);
    let (output, report) = rebuild(&setup.store.server, &setup.config, &EARLIEST);
    printed(&output);
    assert_eq!(report["metrics"]["read"]["corrected"], 1, "{report}");
    setup.assert_exact();
    let dir = TempDir::new();
    let name = baseline(&setup.config, &setup.store, &dir);
    setup.brokers.delete_records(1, 12);
    let (output, _) = rebuild(&setup.store.server, &setup.config, &EARLIEST);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("12 of partition 1"), "{errors}");
    forge(&setup.store, "note:6", READ, 1_000);
    setup.produce(2);
    let from = [
        // The refused one is not continued.
        "--restart",
        "--from",
        &name,
        "--archive",
        dir.path().to_str().expect("a text"),
    ];
    printed(&rebuild(&setup.store.server, &setup.config, &from).0);
    wait_until_counted(&setup.store, &setup.topic, PARTITIONS);
    for note in 0..40 {
        assert_eq!(setup.api().counts(note)["read"], 20, "note {note}");
    }
}
