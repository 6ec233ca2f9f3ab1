//! IDs of envelopes that are remembered forever (`dedup.events`).

use crate::support::stores::{TestStore, for_each_store};
use crate::support::{
    Api, Countd, Settings, dead_reasons, metric, printed, run, set_schema, wait_until_drained,
};
use countint_tests::{reply, wait_until};
use serde_json::{Value as Json, json};

const PARTITIONS: u16 = 16;
const FOREVER: &str = "[log]\npartitions = 16\n[dedup]\nevents = \"forever\"\nevent_window_seconds = 1\n[consumer]\nlinger_ms = 5\n";
const WINDOW: &str =
    "[log]\npartitions = 16\n[dedup]\nevents = \"window\"\n[consumer]\nlinger_ms = 5\n";
const NUMERIC: &str = "114327608932745216";

fn envelope(event_id: &str, eid: u64) -> Json {
    json!({
        "event_id": event_id, "event_type": "repost", "aggregate_type": "note", "aggregate_id": eid,
        "payload": { "delta": 1, "uid": 42 },
    })
}

fn send(store: &TestStore, api: &Api, ids: &[&str]) {
    let envelopes: Vec<Json> = ids.iter().map(|id| envelope(id, 1)).collect();
    api.ok(api.post("/events", &json!(envelopes)));
    wait_until_drained(&store.server, PARTITIONS);
}

fn ids_are_remembered_after_the_window(store: TestStore) {
    let countd = Countd::start(&store.server, FOREVER);
    let (api, mut client) = (countd.api(), store.server.client());
    let ids = [NUMERIC, "0", "a-1", "007", "18446744073709551616"];
    send(&store, &api, &ids);
    assert_eq!(api.counts(1)["repost"], 5);
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    for _ in 0..2 {
        send(&store, &api, &ids);
    }
    assert_eq!(api.counts(1)["repost"], 5);
    wait_until("the repeats are reported", || {
        metric(&api, "countd_events_duplicated_total") == 10
    });
    let partition = TestStore::partition("note:1", PARTITIONS);
    let set = store.event_ids(partition);
    let card = if store.has_module {
        "RBM.CARD"
    } else {
        "SCARD"
    };
    assert_eq!(reply::int(client.ok(&format!("{card} {set}"))), 2);
    for id in ["a-1", "007", "18446744073709551616"] {
        let key = store.key("act:dedup:event:", id, "note:1");
        assert_eq!(reply::int(client.ok(&format!("TTL {key}"))), -1, "{id}");
    }
}

fn the_setting_can_be_changed(store: TestStore) {
    set_schema(&store.server, FOREVER);
    let start = |config| {
        let command = "all";
        Countd::with(&store.server, &Settings { command, config })
    };
    let mut sent: Vec<String> = Vec::new();
    for (round, config) in [WINDOW, FOREVER, WINDOW, FOREVER].into_iter().enumerate() {
        let mut countd = start(config);
        sent.extend([format!("{round}"), format!("a{round}")]);
        let ids: Vec<&str> = sent.iter().map(String::as_str).collect();
        // Each ID of an earlier round is sent again.
        send(&store, &countd.api(), &ids);
        assert_eq!(countd.api().counts(1)["repost"], sent.len(), "{round}");
        countd.stop();
    }
}

fn a_damaged_set_fails_only_the_envelopes_that_need_it(store: TestStore) {
    let countd = Countd::start(&store.server, FOREVER);
    let (api, mut client) = (countd.api(), store.server.client());
    let partition = TestStore::partition("note:1", PARTITIONS);
    let set = store.event_ids(partition);
    send(&store, &api, &["old"]);
    client.ok(&format!("SET {set} damaged"));
    // The duplicate is recognized all the same.
    send(&store, &api, &["7", "b", "old"]);
    wait_until("the other envelopes count", || api.counts(1)["repost"] == 2);
    let reasons = dead_reasons(&store.server, FOREVER);
    assert_eq!(reasons, [format!("{set} holds another type")]);
    client.ok(&format!("DEL {set}"));
    printed(&run(&store.server, FOREVER, &["dead", "retry", "--all"]));
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(api.counts(1)["repost"], 3);
    // As documented, the ID of a dead letter is not remembered when it is retried or when it was not counted.
    send(&store, &api, &["8", "8"]);
    assert_eq!(api.counts(1)["repost"], 4);
}

for_each_store!(
    [module plain cluster]
    ids_are_remembered_after_the_window
    the_setting_can_be_changed
    a_damaged_set_fails_only_the_envelopes_that_need_it
);

/// A batch with more IDs than a command takes.
#[test]
fn many_ids_of_a_batch_are_remembered() {
    let store = crate::support::stores::module();
    let countd = Countd::start(&store.server, FOREVER);
    let (api, mut client) = (countd.api(), store.server.client());
    let envelopes: Vec<Json> = (0..5_000)
        .map(|id: u64| envelope(&(114_327_608_932_745_216 + id * 4_096).to_string(), 1))
        .collect();
    for _ in 0..2 {
        api.ok(api.post("/events", &json!(envelopes)));
    }
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(api.counts(1)["repost"], 5_000);
    let set = store.event_ids(TestStore::partition("note:1", PARTITIONS));
    assert_eq!(reply::int(client.ok(&format!("RBM.CARD {set}"))), 5_000);
    let bytes = reply::int(client.ok(&format!("MEMORY USAGE {set}")));
    assert!(bytes < 8 * 5_000, "{bytes} bytes for 5,000 ids");
}
