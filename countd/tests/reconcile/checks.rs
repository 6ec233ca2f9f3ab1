//! Check entries: exact, whatever waits in the log.

use super::setup::{
    EXACT_ROUNDS, LIKE, NO_ROUNDS, PARTITIONS, config, differences, forge, log_length,
};
use crate::days::setup::{history, sum, total};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store, module, objects};
use crate::support::{
    Api, Countd, Settings, on_note, printed, run, set_schema, wait_until_days_are_kept,
    wait_until_drained, with,
};
use countint_tests::{reply, wait_until};
use serde_json::{Value as Json, json};
use std::thread;

for_each_store! {
    [module objects plain cluster]
    a_check_entry_is_exact_while_events_wait
    two_checks_in_a_batch
    a_check_survives_kills_between_append_and_commit
    a_retried_dead_letter_does_not_count_twice
    a_retried_dead_letter_does_not_count_twice_by_day
    external_events_switch_a_metric_off
}

fn serve(store: &TestStore, config: &str) -> Countd {
    set_schema(&store.server, config);
    // The first consumer of new data records the settings by which events are counted.
    consume(store, config).stop();
    let command = "serve";
    Countd::with(&store.server, &Settings { command, config })
}

fn consume(store: &TestStore, config: &str) -> Countd {
    let command = "consume";
    Countd::with(&store.server, &Settings { command, config })
}

fn like(api: &Api, uid: u64) {
    api.act("like", with(on_note(1, uid), json!({ "author": 7 })));
}

/// Runs a check of note 1, and `meanwhile` when its entry is in the log. Returns the report.
fn check_while<T>(store: &TestStore, config: &str, meanwhile: impl FnOnce() -> T) -> (Json, T) {
    let before = log_length(store, "note:1");
    thread::scope(|scope| {
        let checking = scope.spawn(|| {
            let arguments = ["reconcile", "--entity", "note", "1", "--json"];
            run(&store.server, config, &arguments)
        });
        wait_until("the check is appended", || {
            log_length(store, "note:1") > before
        });
        let result = meanwhile();
        let report = printed(&checking.join().expect("the command ends"));
        (serde_json::from_str(&report).expect("JSON"), result)
    })
}

fn a_check_entry_is_exact_while_events_wait(store: TestStore) {
    let config = config("batched", NO_ROUNDS);
    let serve = serve(&store, &config);
    let api = serve.api();
    for uid in 1..=3 {
        like(&api, uid);
    }
    // The counter is right: the check finds no difference, although nothing is counted yet.
    let (report, _consumer) = check_while(&store, &config, || {
        api.act("unlike", on_note(1, 2));
        for uid in 4..=8 {
            like(&api, uid);
        }
        consume(&store, &config)
    });
    assert_eq!(report["metrics"]["like"]["differing"], 0, "{report}");
    assert_eq!(report["metrics"]["like"]["checked"], 1, "{report}");
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(api.counts(1)["like"], 7);
    assert!(differences(&store).is_empty());
    drop(_consumer);

    // It is wrong by 10: the check corrects exactly that.
    forge(&store, "note:1", LIKE, 10);
    api.act("unlike", on_note(1, 3));
    let (report, _consumer) = check_while(&store, &config, || {
        like(&api, 9);
        like(&api, 10);
        consume(&store, &config)
    });
    assert_eq!(report["metrics"]["like"]["corrected"], 1, "{report}");
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(api.counts(1)["like"], 8);
    assert_eq!(api.user(7)["likesReceived"], 8);
    assert_eq!(differences(&store), ["-10"]);
}

fn two_checks_in_a_batch(store: TestStore) {
    let config = config("batched", NO_ROUNDS);
    let serve = serve(&store, &config);
    let api = serve.api();
    like(&api, 1);
    forge(&store, "note:1", LIKE, 5);
    let ((second, consumer), first) = {
        let (first, (second, consumer)) = check_while(&store, &config, || {
            like(&api, 2);
            like(&api, 3);
            check_while(&store, &config, || {
                api.act("unlike", on_note(1, 1));
                consume(&store, &config)
            })
        });
        ((second, consumer), first)
    };
    wait_until_drained(&store.server, PARTITIONS);
    drop(consumer);
    assert_eq!(api.counts(1)["like"], 2);
    assert_eq!(api.user(7)["likesReceived"], 2);
    // The first one corrects, whether both are in one batch or not.
    assert_eq!(first["metrics"]["like"]["corrected"], 1, "{first}");
    assert_eq!(second["metrics"]["like"]["differing"], 0, "{second}");
    assert_eq!(differences(&store), ["-5"]);
}

fn a_check_survives_kills_between_append_and_commit(store: TestStore) {
    let config = config("batched", NO_ROUNDS);
    let serve = serve(&store, &config);
    let api = serve.api();
    let mut consumer = consume(&store, &config);
    for round in 0..4 {
        consumer.kill();
        like(&api, 100 + round);
        forge(&store, "note:1", LIKE, 3);
        check_while(&store, &config, || {
            like(&api, 200 + round);
            for _ in 0..3 {
                consumer.launch();
                consumer.kill();
            }
            consumer.launch();
        });
    }
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(api.counts(1)["like"], 8);
    assert_eq!(api.user(7)["likesReceived"], 8);
    assert_eq!(differences(&store), ["-3", "-3", "-3", "-3"]);
    assert_invariants(&store.server, &config);
}

/// A key of the authors of entities. If it holds another type, events of the entity become dead letters.
fn authors_key(store: &TestStore, entity: &str) -> String {
    match (TestStore::partition(entity, PARTITIONS), store.is_cluster()) {
        (partition, true) => format!("auth:note:{{{partition}}}"),
        (partition, false) => format!("auth:note:{partition}"),
    }
}

fn a_retried_dead_letter_does_not_count_twice(store: TestStore) {
    let _countd = retry_a_corrected_event(&store, &config("batched", NO_ROUNDS));
    assert_eq!(differences(&store), ["1"]);
}

/// The retried event counts in its day, and the check that follows takes back what an earlier one has added.
fn a_retried_dead_letter_does_not_count_twice_by_day(store: TestStore) {
    let config = config("batched", NO_ROUNDS);
    let config = config.replace("[metrics.like]\n", "[metrics.like]\ndaily = true\n");
    let [serve, _consumer] = retry_a_corrected_event(&store, &config);
    assert_eq!(total(&store, "like", "a-1"), 2);
    let history = history(&serve.api(), "like", "a-1");
    assert_eq!(sum(&history), 2, "{history}");
    // The counter, the total and the days: by the first check, and by that of the retry.
    let mut differences = differences(&store);
    differences.sort();
    assert_eq!(differences, ["-1", "-1", "-1", "1", "1", "1"]);
}

/// Retries the dead letter of a like that a check has counted. The counter stays.
fn retry_a_corrected_event(store: &TestStore, config: &str) -> [Countd; 2] {
    let serve = serve(store, config);
    let api = serve.api();
    let on_a = |uid: u64| json!({ "etype": "note", "eid": "a-1", "uid": uid });
    let likes = || api.ok(api.get("/counter/note/a-1"))["counts"]["like"].clone();
    let key = authors_key(store, "note:a-1");
    let mut client = store.server.client();
    client.ok(&format!("LPUSH {key} x"));
    let consumer = consume(store, config);
    let daily = config.matches("daily = true").count();
    wait_until_days_are_kept(std::slice::from_ref(&store.server), daily);
    api.act("like", on_a(1));
    wait_until_drained(&store.server, PARTITIONS);
    let dead = || printed(&run(&store.server, config, &["dead", "list"]));
    assert_eq!(dead().lines().count(), 1);
    client.ok(&format!("DEL {key}"));
    api.act("like", on_a(2));
    // The check counts the fact whose event is a dead letter.
    let report = ["reconcile", "--entity", "note", "a-1"];
    assert!(run(&store.server, config, &report).status.success());
    assert_eq!(likes(), 2);
    printed(&run(&store.server, config, &["dead", "retry", "--all"]));
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(dead(), "");
    assert_eq!(likes(), 2);
    [serve, consumer]
}

#[test]
fn a_retried_dead_letter_counts_if_no_check_has_counted_it() {
    // A missing table would be rebuilt with the next event.
    let store = objects();
    let config = config("batched", NO_ROUNDS);
    let serve = serve(&store, &config);
    let api = serve.api();
    let key = authors_key(&store, "note:1");
    let mut client = store.server.client();
    client.ok(&format!("LPUSH {key} x"));
    let _consumer = consume(&store, &config);
    api.act("like", on_note(1, 1));
    wait_until_drained(&store.server, PARTITIONS);
    client.ok(&format!("DEL {key}"));
    like(&api, 2);
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(api.counts(1)["like"], 1);
    printed(&run(&store.server, &config, &["dead", "retry", "--all"]));
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(api.counts(1)["like"], 2);
    assert_eq!(api.user(7)["likesReceived"], 2);
}

#[test]
fn a_check_is_never_retried() {
    let store = module();
    let config = config("batched", NO_ROUNDS);
    let _countd = Countd::start(&store.server, &config);
    let log = store.log(TestStore::partition("note:1", PARTITIONS));
    let mut client = store.server.client();
    let other = json!({ "etype": "note", "eid": "2", "source": "check", "checks": [["like", 5]] });
    for entry in ["{", &other.to_string()] {
        client.call(&["XADD", &log, "0-*", "c", entry]);
    }
    wait_until_drained(&store.server, PARTITIONS);
    let dead = printed(&run(&store.server, &config, &["dead", "list"]));
    assert_eq!(dead.lines().count(), 2, "{dead}");
    let length = log_length(&store, "note:1");
    let retried = printed(&run(&store.server, &config, &["dead", "retry", "--all"]));
    assert!(retried.contains("2 retried, 0 left"), "{retried}");
    assert_eq!(log_length(&store, "note:1"), length);
}

fn external_events_switch_a_metric_off(store: TestStore) {
    let config = config("batched", EXACT_ROUNDS);
    let countd = Countd::start(&store.server, &config);
    let api = countd.api();
    like(&api, 1);
    let envelope = json!({
        "event_id": "e-1", "event_type": "like", "aggregate_type": "note", "aggregate_id": 1,
        "payload": { "delta": 5, "uid": 42 },
    });
    let (status, body) = api
        .try_post("/events", &envelope.to_string())
        .expect("sent");
    assert_eq!(status, 200, "{body}");
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(api.counts(1)["like"], 6);
    let mut client = store.server.client();
    let is_external = client.ok("HGET countd:layout external:like");
    assert_eq!(reply::text(is_external), "1");
    // Neither rounds nor the command touch it.
    let report = printed(&run(
        &store.server,
        &config,
        &["reconcile", "--all", "--json"],
    ));
    assert!(!report.contains("\"like\""), "{report}");
    let round = |client: &mut countint_tests::Client| {
        let round = reply::format(&client.ok("HGET countd:reconcile round"));
        round.trim_matches('"').parse::<u64>().unwrap_or(0)
    };
    let before = round(&mut client);
    wait_until("two rounds", || round(&mut client) > before + 2);
    assert_eq!(api.counts(1)["like"], 6);
    assert!(differences(&store).is_empty());
    let check = printed(&run(&store.server, &config, &["check"]));
    assert!(check.contains("note: like is not compared"), "{check}");
}
