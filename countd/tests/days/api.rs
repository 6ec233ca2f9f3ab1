//! `GET /history` and `POST /history/batch`.

use super::setup::{CONFIG, PARTITIONS};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Countd, assert_refused, on_note, wait_until_drained};
use serde_json::{Value as Json, json};

for_each_store! {
    [module plain cluster]
    a_page_of_sparklines_is_one_call
}

fn a_page_of_sparklines_is_one_call(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    for eid in 1..=20 {
        for uid in 0..eid {
            api.act("read", on_note(eid, uid));
        }
    }
    wait_until_drained(&store.server, PARTITIONS);
    let entity = |eid: u64| json!({ "etype": "note", "eid": eid });
    let items: Vec<Json> = (1..=25).map(entity).collect();
    let request = json!({ "metric": "view", "items": items });
    // The script is loaded.
    api.ok(api.post("/history/batch", &request));
    let mut client = store.server.client();
    // A damaged key fails its own entity only.
    client.ok(&format!(
        "DEL {}",
        store.key("h:agg:read:note:3", "", "note:3")
    ));
    client.ok(&format!(
        "SET {} x",
        store.key("h:agg:read:note:3", "", "note:3")
    ));
    let response = api.ok(api.post("/history/batch", &request));
    let found = response["items"].as_array().expect("items");
    assert_eq!(found.len(), 25);
    for (item, eid) in found.iter().zip(1_i64..) {
        if eid == 3 {
            assert_eq!(item["error"]["code"], "damaged", "{item}");
            continue;
        }
        let counts = item["counts"].as_array().expect("counts");
        assert_eq!(counts.len(), 30);
        let sum: i64 = counts
            .iter()
            .map(|count| count.as_i64().expect("a count"))
            .sum();
        assert_eq!(sum, if eid > 20 { 0 } else { eid }, "{item}");
    }
    let refused = |more: Json, status, code| {
        let body = crate::support::with(request.clone(), more);
        assert_refused(&api, "/history/batch", &body, status, code);
    };
    refused(json!({ "from": "2026-02-30" }), 400, "malformed");
    refused(json!({ "from": "20260201" }), 400, "malformed");
    refused(
        json!({ "from": "2026-02-02", "to": "2026-02-01" }),
        422,
        "unprocessable",
    );
    refused(
        json!({ "from": "2025-01-01", "to": "2026-02-01" }),
        422,
        "unprocessable",
    );
    refused(json!({ "metric": "clap" }), 404, "unknown_metric");
    refused(
        json!({ "items": [{ "etype": "video", "eid": 1 }] }),
        404,
        "unknown_type",
    );
    let months = "/history/read/note/1?from=2020-01-15&to=2020-03-15&by=month";
    let months = api.ok(api.get(months));
    let dates: Vec<&Json> = months["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|item| &item["date"])
        .collect();
    assert_eq!(dates, ["2020-01", "2020-02", "2020-03"]);
}

#[test]
fn metrics_without_days_have_no_history() {
    let store = crate::support::stores::module();
    let countd = Countd::start(&store.server, "");
    let (status, response) = countd.api().get("/history/like/note/1");
    assert_eq!((status, &response["code"]), (422, &json!("no_history")));
}
