//! `GET /rank/{name}`.

use super::{config, items, page, wait_until_right};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Countd, run};
use serde_json::{Value as Json, json};

for_each_store! {
    [module plain cluster]
    requests_are_checked
}

fn requests_are_checked(store: TestStore) {
    let countd = Countd::start(&store.server, &config());
    let api = countd.api();
    let empty = wait_until_right(&api);
    assert_eq!(
        (&empty["items"], &empty["complete"]),
        (&json!([]), &json!(true))
    );
    assert_eq!(
        (&empty["cursor"], &empty["ranking"]),
        (&Json::Null, &json!("hot"))
    );
    assert!(items(&api.ok(api.get("/api/v1/rank/hot?etype=note"))).is_empty());
    // The response has the fields of the documented example.
    let document = api.ok(api.get("/openapi.json"));
    let response = &document["paths"]["/rank/{name}"]["get"]["responses"]["200"];
    let example = &response["content"]["application/json"]["example"];
    let fields = |json: &Json| {
        let fields = json.as_object().expect("an object").keys();
        fields.cloned().collect::<Vec<_>>()
    };
    assert_eq!(fields(&empty), fields(example));
    assert!(example["items"][0]["eid"].is_string());
    for (query, status, code) in [
        ("/rank/cold?etype=note", 404, "unknown_ranking"),
        ("/rank/hot?etype=video", 404, "unknown_type"),
        ("/rank/hot?etype=post", 422, "unprocessable"),
        ("/rank/hot?etype=user", 422, "unprocessable"),
        ("/rank/hot", 400, "malformed"),
        ("/rank/hot?etype=a%20b", 400, "malformed"),
        ("/rank/hot?etype=note&limit=0", 400, "malformed"),
        ("/rank/hot?etype=note&limit=501", 400, "malformed"),
        ("/rank/hot?etype=note&limit=x", 400, "malformed"),
        ("/rank/hot?etype=note&cursor=1", 400, "malformed"),
        ("/rank/hot?etype=note&cursor=20200101.0.1", 400, "malformed"),
        ("/rank/hot?etype=note&other=1", 400, "malformed"),
    ] {
        let (found, problem) = api.get(query);
        assert_eq!(
            (found, &problem["code"]),
            (status, &json!(code)),
            "{query}: {problem}"
        );
    }
    assert_eq!(page(&api, "&limit=500").0, 200);
}

#[test]
fn a_ranking_of_a_metric_without_days_is_refused() {
    let store = crate::support::stores::module();
    let config = "[rank.hot]\nweights = { like = 1 }\nwindow_days = 7\n";
    let output = run(&store.server, config, &["check"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(error.contains("rank.hot.weights.like"), "{error}");
    assert!(
        error.contains("the metric like requires daily = true"),
        "{error}"
    );
}
