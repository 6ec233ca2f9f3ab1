//! Processes whose settings differ, or have changed: what the ones count, no comparison of the others corrects.

use super::setup::{
    EXACT_ROUNDS, LIKE, NO_ROUNDS, PARTITIONS, audit, config, differences, forge, log_length,
};
use crate::days::setup as days;
use crate::support::stores::{TestStore, for_each_store, module};
use crate::support::{
    Api, Countd, Settings, on_note, printed, run, set_schema, wait_until_days_are_kept,
    wait_until_drained,
};
use countint_tests::{Value, wait_until};
use serde_json::{Value as Json, json};
use std::thread;

for_each_store! {
    [module plain cluster]
    a_damaged_counter_is_corrected_after_other_settings
    a_lost_counter_is_not_counted_twice_after_other_settings
}

/// Reads have no other source than their total and days.
const READ: u16 = 0;

fn like(api: &Api, eid: u64, uids: std::ops::Range<u64>) {
    uids.for_each(|uid| _ = api.act("like", on_note(eid, uid)));
}

/// A round that takes long is under way when a process with other settings begins to count.
#[test]
fn a_round_ends_when_settings_differ() {
    const NOTES: u64 = 160;
    let store = module();
    // A page a second, and events that wait for seconds.
    let slow = "interval_seconds = 60\nsample = 1\nmin_difference = 0\nmin_percent = 0\nentities_per_second = 10";
    let waiting = |count| config(count, slow).replace("linger_ms = 5\n", "linger_ms = 3000\n");
    let quick = config("now", slow);
    let countd = Countd::start(&store.server, &quick);
    for eid in 1..=NOTES {
        like(&countd.api(), eid, 1..2);
    }
    wait_until_drained(&store.server, PARTITIONS);
    drop(countd);
    let rounds = waiting("now").replace("interval_seconds = 60", "interval_seconds = 1");
    let countd = Countd::start(&store.server, &rounds);
    let mut client = store.server.client();
    wait_until("a round is under way", || {
        client.ok("HGET countd:reconcile round") != Value::Nil
    });
    let other = waiting("batched");
    let serve = Countd::with(
        &store.server,
        &Settings {
            command: "serve",
            config: &other,
        },
    );
    for eid in 1..=NOTES {
        like(&serve.api(), eid, 2..3);
    }
    wait_until_drained(&store.server, PARTITIONS);
    for eid in 1..=NOTES {
        assert_eq!(countd.api().counts(eid)["like"], 2, "{eid}");
    }
    assert!(audit(&store).is_empty(), "{:?}", audit(&store));
}

fn a_damaged_counter_is_corrected_after_other_settings(store: TestStore) {
    let no_rounds = format!("{}[reconcile]\n{NO_ROUNDS}\n", days::CONFIG);
    let countd = Countd::start(&store.server, &no_rounds);
    for uid in 1..=3 {
        countd.api().act("read", on_note(1, uid));
    }
    wait_until_drained(&store.server, PARTITIONS);
    let servers = std::slice::from_ref(&store.server);
    wait_until_days_are_kept(servers, days::METRICS.len());
    drop(countd);
    forge(&store, "note:1", READ, 6);
    // The counts by day of reads are kept meanwhile, so they stay right.
    let rounds = no_rounds.replace(NO_ROUNDS, EXACT_ROUNDS);
    let now = "[metrics.like]\nnature = \"once\"\ncount = \"now\"";
    assert!(rounds.contains(now));
    let countd = Countd::start(
        &store.server,
        &rounds.replace(now, &now.replace("now", "batched")),
    );
    wait_until("the counter is corrected", || differences(&store) == ["-6"]);
    assert_eq!(countd.api().counts(1)["read"], 3);
}

fn a_lost_counter_is_not_counted_twice_after_other_settings(store: TestStore) {
    let batched = config("batched", NO_ROUNDS);
    let start = |command, config: &str| Countd::with(&store.server, &Settings { command, config });
    // The settings of the consumer are recorded.
    set_schema(&store.server, &batched);
    drop(start("all", &batched));
    let serve = start("serve", &batched);
    like(&serve.api(), 1, 1..6);
    drop(serve);
    let serve = start("serve", &config("now", NO_ROUNDS));
    // The facts are there, and their events are not counted.
    assert_eq!(serve.api().counts(1)["like"], 5);
    like(&serve.api(), 1, 6..8);
    let consume = start("consume", &config("now", NO_ROUNDS));
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(serve.api().counts(1)["like"], 7);
    assert!(audit(&store).is_empty(), "{:?}", audit(&store));
    drop(consume);
}

/// A comparison that no commit makes is not counted as equal.
#[test]
fn the_command_reports_what_was_not_compared() {
    let store = module();
    let batched = config("batched", NO_ROUNDS);
    let countd = Countd::start(&store.server, &batched);
    like(&countd.api(), 1, 1..4);
    forge(&store, "note:1", LIKE, 2);
    wait_until_drained(&store.server, PARTITIONS);
    drop(countd);
    let before = log_length(&store, "note:1");
    let arguments = ["reconcile", "--entity", "note", "1", "--json"];
    let report = thread::scope(|scope| {
        let command = scope.spawn(|| run(&store.server, &batched, &arguments));
        wait_until("the check is appended", || {
            log_length(&store, "note:1") > before
        });
        let now = config("now", NO_ROUNDS);
        let countd = Countd::start(&store.server, &now);
        let output = command.join().expect("the command ends");
        drop(countd);
        let report: Json = serde_json::from_str(&printed(&output)).expect("JSON");
        report["metrics"]["like"].clone()
    });
    let found = json!({ "checked": report["checked"], "unchecked": report["unchecked"] });
    assert_eq!(found, json!({ "checked": 0, "unchecked": 1 }), "{report}");
}
