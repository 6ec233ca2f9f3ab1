//! Reads of one entity.

use super::setup::*;
use crate::facts::setup::CONFIG;
use crate::support::{Settings, metric, printed, run, wait_until_drained};
use countint_tests::wait_until;

pub fn deleted_counters_are_rebuilt_on_read(store: TestStore) {
    let (_countd, api) = start_countd(&store);
    act_on(&api, [1, 2]);
    lose(&store, 1);
    assert_eq!(api.counts(1), expected());
    assert_eq!(corrections(&store, 1), ALL);
    assert_eq!(metric(&api, "countd_rebuilds_total"), 1);
    // The counters are stored, and go on from there.
    assert_eq!(api.act("rbm", on(1, 5))["count"], 5);
    assert_eq!(api.act("unsharded", on(1, 7))["count"], 3);
    assert_eq!(api.counts(2), expected());
    assert_eq!(audit(&store).len(), 4);
}

pub fn a_batched_counter_is_rebuilt_when_the_log_is_drained(store: TestStore) {
    let (_countd, api) = start_countd(&store);
    for uid in 0..5 {
        api.act("join", on(1, uid));
    }
    api.act("rbm", on(1, 1));
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(api.counts(1)["join"], 5);
    lose(&store, 1);
    wait_until("the counters are rebuilt", || {
        api.counts(1)["rbm"] == 1 && corrections(&store, 1) == ["join 5", "rbm 1"]
    });
    api.act("join", on(1, 9));
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(api.counts(1)["join"], 6);
}

/// Another process has the lock, and does not rebuild the counters.
pub fn the_loser_answers_from_the_facts(store: TestStore) {
    let (_countd, api) = start_countd(&store);
    act_on(&api, [1]);
    lose(&store, 1);
    let lock = store.key("lock:sds-rebuild:note:", "1", "note:1");
    let mut client = store.server.client();
    client.ok(&format!("SET {lock} other"));
    assert_eq!(api.counts(1), expected());
    assert_eq!(audit(&store).len(), 0, "nothing was corrected");
    client.expect(&format!("GET {lock}"), "\"other\"");
    // The lock of a process that was killed expires.
    client.ok(&format!("PEXPIRE {lock} 1"));
    wait_until("the counters are rebuilt", || {
        api.counts(1) == expected() && corrections(&store, 1) == ALL
    });
    client.expect(&format!("EXISTS {lock}"), "(integer) 0");
}

pub fn verified_zeros_cost_no_further_command(store: TestStore) {
    let (_countd, api) = start_countd(&store);
    assert_eq!(api.counts(1)["rbm"], 0);
    let exists = store.calls_of("exists");
    assert!(exists > 0, "the first read looks for facts");
    let items: Vec<Json> = (1..3)
        .map(|eid| json!({ "etype": "note", "eid": eid }))
        .collect();
    for _ in 0..20 {
        assert_eq!(api.counts(1)["rbm"], 0);
    }
    assert_eq!(store.calls_of("exists"), exists);
    api.ok(api.post("/counter/batch", &json!({ "items": items })));
    assert_eq!(store.calls_of("exists"), exists + 1, "note 2 is new");
}

pub fn the_author_is_credited_after_a_rebuild(store: TestStore) {
    let (_countd, api) = start_countd(&store);
    let mut action = on(1, 5);
    action["author"] = json!(77);
    api.act("rbm", action);
    act_on(&api, [1]);
    wait_until_drained(&store.server, PARTITIONS);
    let received = || api.user(77)["likesReceived"].clone();
    wait_until("the author is credited", || received() == 17);
    lose(&store, 1);
    let key = store.counters("f1", "note:1", PARTITIONS);
    let mut client = store.server.client();
    // A wrong counter is credited with the next event, and taken back after the rebuild.
    match (store.has_tables, store.has_module) {
        (true, _) => client.ok(&format!("CTAB.SET {key} 1 LEN 5 1 1000")),
        (false, true) => client.ok(&format!("CINT.SET {key} LEN 5 1 1000")),
        (false, false) => client.ok(&format!("BITFIELD {key} SET u40 #4 0 SET u40 #1 1000")),
    };
    api.act("bitmap", on(1, 100));
    wait_until("the wrong counter is credited", || received() == 1001);
    lose(&store, 1);
    assert_eq!(api.counts(1)["bitmap"], 5);
    wait_until("the credit follows", || received() == 18);
}

/// Comments have no source: neither facts nor counts by day.
fn start_with_comments(store: &TestStore) -> (Countd, Api) {
    let comment = "[metrics.comment]\nnature = \"repeatable\"\ncount = \"now\"\n";
    let (command, config) = ("all", &[CONFIG, comment].concat());
    let set = "schema set f1 rbm bitmap daily sharded join comment";
    printed(&run(
        &store.server,
        config,
        &set.split(' ').collect::<Vec<_>>(),
    ));
    let countd = Countd::with(&store.server, &Settings { command, config });
    let api = countd.api();
    (countd, api)
}

/// Counters that are deleted lose the fields without a source. The audit has the trace ID of the request that found that.
pub fn deleted_fields_without_source_are_audited(store: TestStore) {
    let (_countd, api) = start_with_comments(&store);
    for uid in [7, 8] {
        api.act("comment", on(1, uid));
        api.act("rbm", on(1, uid));
        api.act("comment", on(2, uid));
    }
    wait_until_drained(&store.server, PARTITIONS);
    let paths = [
        ("/counter/note/1", None),
        (
            "/counter/batch",
            Some(json!({ "items": [{ "etype": "note", "eid": 1 }] })),
        ),
        (
            "/feed",
            Some(json!({ "items": [{ "etype": "note", "eid": 1 }], "uid": 7 })),
        ),
    ];
    for (read, (path, body)) in paths.into_iter().enumerate() {
        lose(&store, 1);
        let trace = format!("t-{read}");
        let found = api.request(path, &[("x-trace-id", &trace)], body.as_ref());
        assert_eq!(found.status, 200);
        assert_eq!(api.counts(1)["rbm"], 2);
        let entries = audit(&store);
        assert_eq!(entries.len(), 2 * (read + 1), "{entries:?}");
        let of_read = entries.iter().filter(|entry| entry["traceId"] == trace);
        let mut of_read: Vec<[&str; 4]> = of_read
            .map(|entry| {
                let note = entry.get("note").map_or("", String::as_str);
                [
                    &entry["metric"],
                    &entry["difference"],
                    &entry["round"],
                    note,
                ]
            })
            .collect();
        of_read.sort_unstable();
        let expected = [
            ["comment", "0", "0", "unrecoverable"],
            ["rbm", "2", "0", ""],
        ];
        assert_eq!(of_read, expected);
    }
    // Without facts nothing tells that there were counters.
    lose(&store, 2);
    assert_eq!(api.counts(2)["comment"], 0);
    assert_eq!(audit(&store).len(), 6);
}

/// A key of another type is deleted. Counters without facts are lost, which the audit records.
pub fn a_field_without_source_is_unrecoverable_and_audited(store: TestStore) {
    let (_countd, api) = start_with_comments(&store);
    for uid in [7, 8] {
        api.act("comment", on(1, uid));
        api.act("rbm", on(1, uid));
    }
    wait_until_drained(&store.server, PARTITIONS);
    let key = store.counters("f1", "note:1", PARTITIONS);
    let mut client = store.server.client();
    client.ok(&format!("DEL {key}"));
    client.ok(&format!("SADD {key} x"));
    let counts = api.counts(1);
    assert_eq!((&counts["rbm"], &counts["comment"]), (&json!(2), &json!(0)));
    let corrections = corrections(&store, 1);
    assert_eq!(corrections, ["comment 0 unrecoverable", "rbm 2"]);
    assert_eq!(api.act("comment", on(1, 9))["count"], 1);
}
