//! What cannot be split, and what waits while an entity is split.

use super::{CONFIG, merge, split};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Countd, on_note, run};
use serde_json::json;

for_each_store!([module cluster] what_cannot_be_split_is_refused_with_the_reason);

fn what_cannot_be_split_is_refused_with_the_reason(store: TestStore) {
    let server = &store.server;
    let countd = Countd::start(server, CONFIG);
    let api = countd.api();
    let refused = |arguments: &[&str], config: &str, reason: &str| {
        let output = run(server, config, arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && errors.contains(reason),
            "{errors}"
        );
    };
    for (arguments, reason) in [
        (
            ["hot", "split", "user:7", "--shards", "4"],
            "users cannot be split",
        ),
        (
            ["hot", "split", "other:7", "--shards", "4"],
            "no entity type other",
        ),
        (
            ["hot", "split", "note:7", "--shards", "1"],
            "shards must be 2 to 64",
        ),
        (
            ["hot", "split", "note:7", "--shards", "65"],
            "shards must be 2 to 64",
        ),
        (["hot", "split", "note", "--shards", "4"], "must be TYPE:ID"),
    ] {
        refused(&arguments, CONFIG, reason);
    }
    api.act("like", on_note(7, 1));
    let report = split(server, CONFIG);
    assert_eq!(report["phase"], "split");
    let whole = report["whole"].to_string();
    assert!(
        whole.contains("read") && whole.contains("repeatable"),
        "{whole}"
    );
    // A user of a shard, and one of the base.
    assert_eq!(
        api.act("like", on_note(7, 2)),
        json!({ "changed": true, "count": 2 })
    );
    assert_eq!(
        api.act("unlike", on_note(7, 1)),
        json!({ "changed": true, "count": 1 })
    );
    assert_eq!(api.counts(7)["like"], 1);
    let adjust = json!({ "etype": "note", "eid": 7, "metric": "like", "add": 5, "reason": "test" });
    let (status, problem) = api.post("/counter/adjust", &adjust);
    assert!(status >= 400, "{problem}");
    refused(
        &["hot", "split", "note:7", "--shards", "8"],
        CONFIG,
        "has 4 shards",
    );
    refused(&["storage", "migrate", "note"], CONFIG, "is split");
    assert_eq!(merge(server, CONFIG)["phase"], json!(null));
    assert_eq!(api.counts(7)["like"], 1);
    assert_eq!(
        api.act("like", on_note(7, 1)),
        json!({ "changed": true, "count": 2 })
    );
}
