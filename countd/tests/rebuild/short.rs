//! Objects that are too short, although some of their counters are left.

use super::setup::*;
use crate::facts::setup::CONFIG;
use crate::support::{Settings, wait_until_drained, with};

/// Two of five counters remain. Without the module, half of the third one, too.
fn cut(store: &TestStore, eid: u64) {
    let key = store.counters("f1", &entity(eid), PARTITIONS);
    let mut client = store.server.client();
    client.ok(&format!("DEL {key}"));
    match store.has_module {
        true => client.ok(&format!("CINT.SET {key} LEN 2 0 4 1 4")),
        false => {
            client.ok(&format!("BITFIELD {key} SET u40 #0 4 SET u40 #1 4"));
            client.ok(&format!("APPEND {key} xx"))
        }
    };
}

const LOST: [&str; 2] = ["daily 4", "sharded 4"];

pub fn a_short_object_is_rebuilt_on_reads(store: TestStore) {
    let (_countd, api) = start_countd(&store);
    act_on(&api, 1..6);
    // A batched counter is known while no entry waits in the log.
    wait_until_drained(&store.server, PARTITIONS);
    cut(&store, 1);
    assert_eq!(api.counts(1), expected());
    assert_eq!(corrections(&store, 1), LOST);
    // The length of a right object is remembered for a while, so each page has other notes.
    let pages = [
        ("/counter/batch", [2, 3], json!({})),
        ("/feed", [4, 5], json!({ "uid": 7 })),
    ];
    for (path, notes, body) in pages {
        cut(&store, notes[0]);
        let items = notes.map(|eid| json!({ "etype": "note", "eid": eid }));
        let page = api.ok(api.post(path, &with(body, json!({ "items": items }))));
        let items = page["items"].as_array().expect("items");
        assert_eq!(items.len(), 2);
        assert!(
            items.iter().all(|item| item["counts"] == expected()),
            "{page}"
        );
        assert_eq!(corrections(&store, notes[0]), LOST);
    }
    assert_eq!(audit(&store).len(), 6);
    assert_eq!(api.act("sharded", on(2, 5))["count"], 5);
}

/// The commands of the reads of a page.
fn reads(store: &TestStore) -> u64 {
    let commands = ["cint.mread", "cint.len", "getrange", "strlen", "exists"];
    let calls = commands.iter().map(|command| store.calls_of(command));
    calls.sum()
}

pub fn lengths_cost_right_objects_nothing(store: TestStore) {
    // Nothing else reads counters.
    let config = &[CONFIG, "[reconcile]\nenabled = false\n"].concat();
    let command = "all";
    let (countd, _) = start_countd(&store);
    drop(countd);
    let countd = Countd::with(&store.server, &Settings { command, config });
    let api = countd.api();
    act_on(&api, 1..4);
    // The last counter is not 0.
    (1..4).for_each(|eid| _ = api.act("join", on(eid, 7)));
    wait_until_drained(&store.server, PARTITIONS);
    let items: Vec<Json> = (1..4)
        .map(|eid| json!({ "etype": "note", "eid": eid }))
        .collect();
    let body = json!({ "items": items });
    let page = |times: u64| {
        let before = reads(&store);
        (0..times).for_each(|_| _ = api.ok(api.post("/counter/batch", &body)));
        reads(&store) - before
    };
    let lengths = || store.calls_of("cint.len") + store.calls_of("strlen");
    let before = lengths();
    // Without the module, and in a cluster, each object is read by a command of its own.
    let commands = page(1);
    assert!(commands <= 3, "{commands}");
    assert_eq!((page(10), lengths()), (10 * commands, before));
    // The length of an object whose last counter is 0 is read once, and only of objects whose replies do not have it.
    act_on(&api, [4]);
    wait_until_drained(&store.server, PARTITIONS);
    let before = lengths();
    (0..10).for_each(|_| assert_eq!(api.counts(4), expected()));
    let read = lengths() - before;
    assert!(read <= u64::from(store.has_module), "{read}");
}
