//! Entities that are split because of the rate of their writes, and where operators see split entities.

use super::{CONFIG, merge, split};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, Countd, metric, on_note, pause, with};
use countint_tests::env::deadline;
use countint_tests::wait_until;
use serde_json::json;
use std::ops::Range;
use std::time::Instant;

for_each_store! {
    [module cluster]
    an_entity_with_too_many_writes_is_split
    split_entities_are_listed
}

/// The grace period of a split without a command.
const GRACE_SECONDS: u64 = 60;

/// Writes to a note 500 times with one request.
fn write_often(api: &Api, eid: u64) {
    let line = with(on_note(eid, 1), json!({ "metric": "comment" })).to_string();
    let sent = api.try_post("/actions", &vec![line; 500].join("\n"));
    assert_eq!(sent.map(|(status, _)| status), Ok(200));
}

/// The shards of the hot note, as `GET /hot` lists it.
fn listed(api: &Api) -> Option<u64> {
    let hot = api.ok(api.get("/hot"));
    let items = hot["items"].as_array().expect("a list");
    let note = items.iter().find(|item| item["eid"] == "7")?;
    note["shards"].as_u64()
}

fn an_entity_with_too_many_writes_is_split(store: TestStore) {
    let config = CONFIG.replace(
        "[hot]\n",
        "[monitor]\ninterval_seconds = 1\n[hot]\nmin_rate = 1\nsplit_rate = 1\nsplit_shards = 8\n",
    );
    let countd = Countd::start(&store.server, &config);
    let api = countd.api();
    wait_until("the note is being split", || {
        write_often(&api, 7);
        listed(&api) == Some(8)
    });
    wait_until("the metric says it", || {
        metric(&api, "countd_split_entities{phase=\"splitting\"}") == 1
    });
    // Users act before it is split and afterwards.
    let like = |users: Range<u64>| {
        for uid in users {
            api.ok(api.post("/action/like", &on_note(7, uid)));
        }
    };
    like(1..21);
    let end = Instant::now() + deadline(GRACE_SECONDS + 60);
    while metric(&api, "countd_split_entities{phase=\"split\"}") == 0 {
        assert!(Instant::now() < end, "it is not split");
        pause();
    }
    like(11..41);
    let shards = store.server.client().run("KEYS rbm:like:note:7~*.*");
    assert!(shards.contains("7~"), "{shards}");
    wait_until("all likes are counted", || api.counts(7)["like"] == 40);
    merge(&store.server, CONFIG);
    assert_eq!(api.counts(7)["like"], 40);
}

fn split_entities_are_listed(store: TestStore) {
    let config = CONFIG.replace(
        "[hot]\n",
        "[monitor]\ninterval_seconds = 1\n[hot]\nmin_rate = 1\n",
    );
    let countd = Countd::start(&store.server, &config);
    let api = countd.api();
    let hot = |shards| {
        wait_until("the note is hot", || {
            write_often(&api, 7);
            listed(&api) == Some(shards)
        });
    };
    hot(1);
    split(&store.server, CONFIG);
    hot(4);
    wait_until("the metric says it", || {
        metric(&api, "countd_split_entities{phase=\"split\"}") == 1
    });
    merge(&store.server, CONFIG);
    hot(1);
    wait_until("the metric says it", || {
        metric(&api, "countd_split_entities{phase=\"split\"}") == 0
    });
}
