//! Metrics with other names and natures than in the default configuration.

use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Countd, assert_refused, printed, run, wait_until_drained, with};
use serde_json::json;

/// Metrics of each nature and each counting mode.
const CONFIG: &str = r#"
[entities]
topic = "t1"
[metrics.join]
nature = "once"
count = "batched"
[metrics.vote]
nature = "repeatable"
count = "now"
[metrics.read]
nature = "repeatable"
count = "now"
[metrics.unread]
nature = "repeatable"
count = "now"
[metrics.friend]
nature = "once"
count = "now"
[metrics.block]
nature = "once"
count = "now"
aliases = ["unfriend"]
"#;

fn metrics_can_have_any_nature_and_counting_mode(TestStore { server, .. }: TestStore) {
    printed(&run(
        &server,
        CONFIG,
        &[
            "schema", "set", "t1", "join", "vote", "read", "unread", "friend", "block",
        ],
    ));
    let countd = Countd::start(&server, CONFIG);
    let api = countd.api();
    let action = json!({ "etype": "topic", "eid": "t-1", "uid": 42 });
    assert_eq!(api.act("join", action.clone()), json!({ "changed": true }));
    assert_eq!(api.act("join", action.clone()), json!({ "changed": false }));
    assert_eq!(
        api.act("vote", action.clone()),
        json!({ "changed": true, "count": 1 })
    );
    assert_eq!(
        api.act("vote", action.clone()),
        json!({ "changed": true, "count": 2 })
    );
    let keyed = with(action.clone(), json!({ "idempotencyKey": "k" }));
    assert_eq!(
        api.act("vote", keyed.clone()),
        json!({ "changed": true, "count": 3 })
    );
    assert_eq!(
        api.act("vote", keyed),
        json!({ "changed": true, "count": 3 })
    );
    // A metric name and an alias that start with `un` take precedence over the removal of another metric.
    for (metric, name) in [("read", "unread"), ("friend", "unfriend")] {
        assert_eq!(api.act(metric, action.clone())["count"], 1);
        assert_eq!(api.act(name, action.clone())["count"], 1, "{name}");
    }
    assert_refused(&api, "/action/unvote", &action, 422, "unprocessable");
    let removal = with(action, json!({ "op": "remove" }));
    assert_eq!(api.act("vote", removal)["count"], 2);
    let reset = json!({ "etype": "topic", "eid": "t-1", "metric": "unread" });
    assert_eq!(
        api.ok(api.post("/counter/reset", &reset)),
        json!({ "was": 1 })
    );
    assert_eq!(
        api.ok(api.post("/api/v1/counter/reset", &reset)),
        json!({ "was": 0 })
    );
    assert_refused(
        &api,
        "/counter/reset",
        &json!({ "etype": "topic", "eid": 1, "metric": "join" }),
        422,
        "unprocessable",
    );
    wait_until_drained(&server, 1024);
    let counter = api.ok(api.get("/counter/topic/t-1"));
    assert_eq!(
        counter["counts"],
        json!({ "join": 1, "vote": 2, "read": 1, "unread": 0, "friend": 1, "block": 1 })
    );
}

for_each_store! {
    [module plain cluster]
    metrics_can_have_any_nature_and_counting_mode
}
