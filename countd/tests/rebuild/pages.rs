//! Pages of entities.

use super::setup::*;
use crate::support::wait_until_drained;

fn page(api: &Api, path: &str, notes: impl IntoIterator<Item = u64>) -> Vec<Json> {
    let items = notes.into_iter();
    let items: Vec<Json> = items
        .map(|eid| json!({ "etype": "note", "eid": eid }))
        .collect();
    let mut body = json!({ "items": items });
    if path == "/feed" {
        body["uid"] = json!(7);
    }
    let page = api.ok(api.post(path, &body));
    page["items"].as_array().expect("items").clone()
}

pub fn deleted_counters_of_a_page_are_rebuilt(store: TestStore) {
    let (_countd, api) = start_countd(&store);
    act_on(&api, 1..4);
    for (path, lost) in [("/counter/batch", 2), ("/feed", 3)] {
        lose(&store, lost);
        let items = page(&api, path, 1..5);
        for item in &items[..3] {
            assert_eq!(item["counts"], expected(), "{path} {item}");
        }
        assert_eq!(items[3]["counts"]["rbm"], 0);
        assert_eq!(corrections(&store, lost), ALL);
    }
    assert_eq!(audit(&store).len(), 8);
}

pub fn a_key_of_another_type_is_rebuilt_alone_in_a_page(store: TestStore) {
    let (_countd, api) = start_countd(&store);
    // Notes of other partitions.
    let notes: Vec<u64> = (1..6).collect();
    act_on(&api, notes.clone());
    let damaged = store.counters("f1", "note:2", PARTITIONS);
    let shared = |eid: &u64| store.counters("f1", &entity(*eid), PARTITIONS) == damaged;
    let mut client = store.server.client();
    for path in ["/counter/batch", "/feed"] {
        // A rebuild appends an entry for the author, so a batched counter is not known until it is counted.
        wait_until_drained(&store.server, PARTITIONS);
        let before = audit(&store).len();
        client.ok(&format!("DEL {damaged}"));
        client.ok(&format!("RPUSH {damaged} x"));
        for item in page(&api, path, notes.clone()) {
            assert_eq!(item["counts"], expected(), "{path} {item}");
        }
        let rebuilt = notes.iter().filter(|eid| shared(eid)).count();
        assert_eq!(audit(&store).len() - before, 4 * rebuilt, "{path}");
    }
}
