//! Objects with too few counters: an object that is older than an extension of its schema grows; an object that is shorter than its
//! original schema is rebuilt.

use crate::support::stores::{TestStore, for_each_store};
use crate::support::{
    Countd, Settings, dead_reasons, on_note, printed, run, set_schema, wait_until_drained, with,
};
use countint_tests::reply;
use serde_json::json;

const PARTITIONS: u16 = 16;
const CONFIG: &str = r#"
[log]
partitions = 16
[consumer]
linger_ms = 5
[metrics.fav]
nature = "once"
count = "now"
facts = "sharded"
users = [{ counter = "favsReceived", of = "author" }]
[metrics.read]
nature = "repeatable"
count = "batched"
[metrics.comment]
nature = "repeatable"
count = "now"
"#;

/// Creates an object of this length, with counters of 0.
fn make(store: &TestStore, key: &str, len: u64) {
    let mut client = store.server.client();
    if store.has_module {
        client.ok(&format!("CINT.INIT {key} {len}"));
    } else {
        client.ok(&format!("BITFIELD {key} SET u40 #{} 0", len - 1));
    }
}

fn len(store: &TestStore, key: &str) -> i64 {
    let mut client = store.server.client();
    match store.has_module {
        true => reply::int(client.ok(&format!("CINT.LEN {key}"))),
        false => reply::int(client.ok(&format!("STRLEN {key}"))) / 5,
    }
}

fn an_object_shorter_than_its_original_schema_is_rebuilt(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    let note = store.counters("v1", "note:1", PARTITIONS);
    let user = store.user_counters("7", PARTITIONS);
    make(&store, &note, 4);
    make(&store, &user, 4);
    api.act("read", on_note(1, 42));
    api.act("read", on_note(2, 42));
    api.act("fav", with(on_note(2, 42), json!({ "author": 7 })));
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(api.counts(2)["read"], 1, "other objects are counted");
    // The consumer rebuilds the counters.
    assert_eq!((len(&store, &note), len(&store, &user)), (5, 5));
    assert_eq!(api.counts(1)["read"], 1);
    assert_eq!(api.user(7)["favsReceived"], 1);
    assert_eq!(dead_reasons(&store.server, CONFIG), Vec::<String>::new());
    assert_eq!(api.act("comment", on_note(1, 42))["count"], 1);
    assert_eq!(api.act("fav", on_note(1, 42))["count"], 1);
}

fn an_object_older_than_its_schema_grows(store: TestStore) {
    let start = |command| {
        let config = CONFIG;
        Countd::with(&store.server, &Settings { command, config })
    };
    set_schema(&store.server, CONFIG);
    let keys = [1, 2, 3].map(|eid: u64| store.counters("v1", &format!("note:{eid}"), PARTITIONS));
    for key in &keys {
        make(&store, key, 5);
    }
    printed(&run(
        &store.server,
        CONFIG,
        &["schema", "extend", "v1", "share"],
    ));
    let countd = start("all");
    let api = countd.api();
    api.act("read", on_note(1, 42));
    api.act("comment", on_note(2, 42));
    api.act("fav", on_note(3, 42));
    wait_until_drained(&store.server, PARTITIONS);
    let counts = (
        &api.counts(1)["read"],
        &api.counts(2)["comment"],
        &api.counts(3)["fav"],
    );
    assert_eq!(counts, (&json!(1), &json!(1), &json!(1)));
    assert_eq!(keys.map(|key| len(&store, &key)), [6, 6, 6]);

    // A schema of an older version has no initial length.
    let schema = store.schema("v1");
    drop(countd);
    store.server.client().ok(&format!("HDEL {schema} first"));
    let short = store.counters("v1", "note:4", PARTITIONS);
    make(&store, &short, 1);
    let countd = start("all");
    countd.api().act("read", on_note(4, 42));
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(countd.api().counts(4)["read"], 1);
    assert_eq!(len(&store, &short), 6);
    assert_eq!(dead_reasons(&store.server, CONFIG), Vec::<String>::new());
}

for_each_store!([objects plain cluster_objects]
    an_object_shorter_than_its_original_schema_is_rebuilt
    an_object_older_than_its_schema_grows
);
