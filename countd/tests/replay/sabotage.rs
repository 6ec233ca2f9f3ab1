//! Counters whose only source is the archive are damaged in every way, and become right.

use super::setup::{
    READ, config, corrections, digests, leftovers, rebuild, start, wait_until_archived,
};
use crate::reconcile::setup::{PARTITIONS, audit, forge};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store, module};
use crate::support::{Api, on_note, printed, run, wait_until_drained, with};
use countint_tests::env::TempDir;
use countint_tests::reply;
use serde_json::json;

for_each_store! {
    [module objects plain cluster]
    rebuild_of_sabotaged_repeatable_counters
    counters_without_totals_are_corrected
}

/// Reads have counts by day.
const METRICS: &str = r#"
[metrics.read]
nature = "repeatable"
count = "batched"
daily = true
[metrics.comment]
nature = "repeatable"
count = "now"
[metrics.like]
nature = "once"
count = "now"
"#;

/// Reads, comments, resets, adjustments and imports, on numbers and other IDs.
fn act(api: &Api) {
    for eid in 1..=40 {
        for uid in 0..eid {
            api.ok(api.post("/action/read", &on_note(eid, 100 + uid)));
        }
        api.ok(api.post("/action/comment", &on_note(eid, 7)));
        api.ok(api.post("/action/like", &on_note(eid, 7)));
        let named = json!({ "etype": "note", "eid": format!("n-{eid}"), "uid": 7 });
        api.ok(api.post("/action/read", &named));
    }
    let adjust =
        json!({ "etype": "note", "eid": 1, "metric": "comment", "add": 70, "reason": "-" });
    api.ok(api.post("/counter/adjust", &adjust));
    let envelope = json!({
        "event_id": "e-1", "event_type": "read", "aggregate_type": "note", "aggregate_id": 3,
        "payload": { "delta": 5, "uid": 2 },
    });
    for _ in 0..3 {
        api.ok(api.post("/events", &envelope));
    }
}

fn rebuild_of_sabotaged_repeatable_counters(store: TestStore) {
    let dir = TempDir::new();
    let archive = dir.path().join("archive");
    let config = &config(&archive, METRICS);
    let countd = start(&store, config);
    let api = countd.api();
    act(&api);
    wait_until_drained(&store.server, PARTITIONS);
    let reset = json!({ "etype": "note", "eid": 2, "metric": "read" });
    api.ok(api.post("/counter/reset", &reset));
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_archived(&store);
    let before = digests(&store);

    // Right counters stay as they are.
    let (output, report) = rebuild(&store.server, config, &["--from", "earliest"]);
    printed(&output);
    assert_eq!(report["metrics"]["read"]["differing"], 0, "{report}");
    assert_eq!(report["metrics"]["read"]["compared"], 80, "{report}");
    assert_eq!(report["metrics"].get("like"), None, "{report}");
    assert_eq!(digests(&store), before);

    // Only counters are damaged, and the days of a counter follow it.
    let mut client = store.server.client();
    forge(&store, "note:5", READ, 1_000);
    forge(&store, "note:6", READ, -4);
    forge(&store, "note:n-7", READ, 3);
    let lost = store.counters("v1", "note:8", PARTITIONS);
    match store.has_tables {
        true => client.ok(&format!("CTAB.DEL {lost} 8")),
        false => client.ok(&format!("DEL {lost}")),
    };
    client.ok(&format!(
        "DEL {}",
        store.counters("v1", "note:n-9", PARTITIONS)
    ));
    let typed = store.counters("v1", "note:n-10", PARTITIONS);
    client.ok(&format!("DEL {typed}"));
    client.ok(&format!("HSET {typed} field value"));
    let damaged = digests(&store);
    let (output, report) = rebuild(&store.server, config, &["--from", "earliest", "--dry-run"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(report["metrics"]["read"]["differing"], 6, "{report}");
    assert_eq!(digests(&store), damaged);
    assert!(corrections(&store).is_empty());

    let (output, report) = rebuild(&store.server, config, &["--from", "earliest"]);
    printed(&output);
    assert_eq!(report["metrics"]["read"]["corrected"], 6, "{report}");
    let corrected = corrections(&store);
    let of = |eid: &str, metric: &str| corrected[&(eid.to_owned(), metric.to_owned())];
    assert_eq!(of("5", "read"), -1_000);
    assert_eq!(of("6", "read"), 4);
    assert_eq!(of("n-7", "read"), -3);
    assert_eq!((of("8", "read"), of("8", "comment")), (8, 1));
    assert_eq!((of("n-9", "read"), of("n-10", "read")), (1, 1));
    assert_eq!(corrected.len(), 7);
    wait_until_drained(&store.server, PARTITIONS);
    let read = |eid: &str| {
        let path = format!("/counter/note/{eid}");
        api.ok(api.get(&path)).to_string()
    };
    for (eid, count) in [
        ("5", 5),
        ("6", 6),
        ("n-7", 1),
        ("8", 8),
        ("n-9", 1),
        ("n-10", 1),
    ] {
        let found = read(eid);
        assert!(
            found.contains(&format!("\"read\":{count}")),
            "{eid}: {found}"
        );
    }
    assert_eq!(leftovers(&store), [""; 0]);
    // What was corrected is right afterwards, and the journal entries of the corrections add nothing.
    wait_until_archived(&store);
    let (output, report) = rebuild(&store.server, config, &["--from", "earliest"]);
    printed(&output);
    assert_eq!(report["metrics"]["read"]["differing"], 0, "{report}");
    // The days of the lost and forged counters equal them again.
    let history = api.ok(api.get("/history/read/note/8")).to_string();
    assert!(history.contains("8"), "{history}");
    let like = with(on_note(8, 7), json!({}));
    api.ok(api.post("/action/like", &like));
}

/// Adds 10,000 days without counts to a Hash.
const MANY_DAYS: &str = "for year = 1990, 2019 do for month = 1, 12 do for day = 1, 28 do \
    redis.call('HSET', KEYS[1], string.format('%04d%02d%02d', year, month, day), 0) end end end";

/// Metrics with counts by day, whose totals do not exist: of entities that were never counted, and of one whose totals were deleted.
fn counters_without_totals_are_corrected(store: TestStore) {
    let dir = TempDir::new();
    let archive = dir.path().join("archive");
    let config = &config(&archive, METRICS);
    let countd = start(&store, config);
    let api = countd.api();
    for uid in 0..5 {
        api.ok(api.post("/action/read", &on_note(5, uid)));
    }
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_archived(&store);
    let mut client = store.server.client();
    for key in reply::array(client.ok("KEYS tot*")).into_iter() {
        let key = reply::text(key);
        match key.starts_with("tot:") {
            true => client.ok(&format!("CTAB.DEL {key} 5")),
            false => client.ok(&format!("HDEL {key} 5")),
        };
    }
    forge(&store, "note:5", READ, 1_000);
    forge(&store, "note:n-77", READ, 3);
    let home = TestStore::partition("note:5", PARTITIONS);
    let in_page = |eid: &i64| TestStore::partition(&format!("note:{eid}"), PARTITIONS) == home;
    let page: Vec<i64> = (900..).filter(in_page).take(20).collect();
    for eid in &page {
        forge(&store, &format!("note:{eid}"), READ, *eid);
    }
    // Some have so many days that one call cannot correct all.
    for eid in &page[..6] {
        let entity = format!("note:{eid}");
        let days = store.key(&format!("h:agg:read:{entity}"), "", &entity);
        client.call(&["EVAL", MANY_DAYS, "1", &days]);
    }
    let (output, report) = rebuild(&store.server, config, &["--from", "earliest"]);
    printed(&output);
    assert_eq!(report["metrics"]["read"]["corrected"], 22, "{report}");
    let corrected = corrections(&store);
    let of = |eid: &str| corrected[&(eid.to_owned(), "read".to_owned())];
    assert_eq!((of("5"), of("n-77")), (-1_000, -3));
    assert!(page.iter().all(|eid| of(&eid.to_string()) == -eid));
    let entries = audit(&store);
    assert_eq!(entries.len(), 22, "one entry for each counter");
    assert!(entries.iter().all(|entry| entry["round"] == "0"));
    assert_eq!(api.counts(5)["read"], 5);
    assert_invariants(&store.server, config);
}

/// A part of the log is missing.
#[test]
fn a_gap_is_refused() {
    let store = module();
    let dir = TempDir::new();
    let archive = dir.path().join("archive");
    let config = &config(&archive, "");
    let countd = start(&store, config);
    let api = countd.api();
    for round in 0..3_u64 {
        for uid in 0..50 {
            api.ok(api.post("/action/read", &on_note(uid % 7, 100 * round + uid)));
        }
        wait_until_drained(&store.server, PARTITIONS);
        wait_until_archived(&store);
    }
    let index = archive.join("index");
    let lines = std::fs::read_to_string(&index).expect("an index");
    let (_, rest) = lines.split_once('\n').expect("lines");
    std::fs::write(&index, rest).expect("written");
    let before = digests(&store);
    let (output, _) = rebuild(&store.server, config, &["--from", "earliest"]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{errors}");
    assert!(
        errors.contains("--from BASELINE") || errors.contains("lacks"),
        "{errors}"
    );
    assert_eq!(digests(&store), before);
    let refused = run(&store.server, config, &["rebuild", "--from", "nothing"]);
    assert!(!refused.status.success());
}
