//! Objects with too few counters: one from before its schema was extended grows; one that was never made for its schema is left as it is.

use crate::support::worlds::{World, on_each};
use crate::support::{
    Countd, Settings, dead_reasons, on_note, printed, refused, run, set_schema, wait_until_drained,
    with,
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

/// An object of so many counters, all 0.
fn make(world: &World, key: &str, len: u64) {
    let mut client = world.server.client();
    if world.has_module {
        client.ok(&format!("CINT.INIT {key} {len}"));
    } else {
        client.ok(&format!("BITFIELD {key} SET u40 #{} 0", len - 1));
    }
}

fn resize(world: &World, key: &str, len: u64) {
    match world.has_module {
        true => {
            world
                .server
                .client()
                .ok(&format!("CINT.RESIZE {key} {len}"));
        }
        false => make(world, key, len),
    }
}

fn len(world: &World, key: &str) -> i64 {
    let mut client = world.server.client();
    match world.has_module {
        true => reply::int(client.ok(&format!("CINT.LEN {key}"))),
        false => reply::int(client.ok(&format!("STRLEN {key}"))) / 5,
    }
}

fn what_was_never_made_for_its_schema_is_left_as_it_is(world: World) {
    let countd = Countd::start(&world.server, CONFIG);
    let api = countd.api();
    let note = world.key("cnt:v1:note:", "1", "note:1");
    let user = world.key("ucnt:", "7", "7");
    make(&world, &note, 4);
    make(&world, &user, 4);
    api.act("read", on_note(1, 42));
    api.act("read", on_note(2, 42));
    api.act("fav", with(on_note(2, 42), json!({ "author": 7 })));
    refused(&api, "/action/comment", &on_note(1, 42), 500, "damaged");
    refused(&api, "/action/fav", &on_note(1, 42), 500, "damaged");
    let reset = json!({ "etype": "note", "eid": 1, "metric": "comment" });
    refused(&api, "/counter/reset", &reset, 500, "damaged");
    wait_until_drained(&world.server, PARTITIONS);
    assert_eq!(api.counts(2)["read"], 1, "others are counted");
    let mut reasons = dead_reasons(&world.server, CONFIG);
    reasons.sort();
    let short = |key: &str| format!("{key} is too short: its schema never had so few counters");
    assert_eq!(reasons, [short(&note), short(&user)]);
    assert_eq!((len(&world, &note), len(&world, &user)), (4, 4));
    let status = api.ok(api.get("/status/note/1?uid=42&metrics=fav"));
    assert_eq!(status["status"]["fav"], false);

    resize(&world, &note, 5);
    resize(&world, &user, 5);
    let retried = printed(&run(&world.server, CONFIG, &["dead", "retry", "--all"]));
    assert_eq!(retried, "2 retried, 0 left\n");
    wait_until_drained(&world.server, PARTITIONS);
    assert_eq!(dead_reasons(&world.server, CONFIG), Vec::<String>::new());
    assert_eq!(api.counts(1)["read"], 1);
    assert_eq!(api.user(7)["favsReceived"], 1);
    assert_eq!(api.act("comment", on_note(1, 42))["count"], 1);
    assert_eq!(api.act("fav", on_note(1, 42))["count"], 1);
}

fn what_is_older_than_its_schema_grows(world: World) {
    let start = |command| {
        let config = CONFIG;
        Countd::with(&world.server, &Settings { command, config })
    };
    set_schema(&world.server, CONFIG);
    let keys = [1, 2, 3].map(|eid: u64| {
        let eid = eid.to_string();
        world.key("cnt:v1:note:", &eid, &format!("note:{eid}"))
    });
    for key in &keys {
        make(&world, key, 5);
    }
    printed(&run(
        &world.server,
        CONFIG,
        &["schema", "extend", "v1", "share"],
    ));
    let countd = start("all");
    let api = countd.api();
    api.act("read", on_note(1, 42));
    api.act("comment", on_note(2, 42));
    api.act("fav", on_note(3, 42));
    wait_until_drained(&world.server, PARTITIONS);
    let counts = (
        &api.counts(1)["read"],
        &api.counts(2)["comment"],
        &api.counts(3)["fav"],
    );
    assert_eq!(counts, (&json!(1), &json!(1), &json!(1)));
    assert_eq!(keys.map(|key| len(&world, &key)), [6, 6, 6]);

    // A schema of an older version does not know how long it was at first.
    let schema = world.schema("v1");
    drop(countd);
    world.server.client().ok(&format!("HDEL {schema} first"));
    let short = world.key("cnt:v1:note:", "4", "note:4");
    make(&world, &short, 1);
    let countd = start("all");
    countd.api().act("read", on_note(4, 42));
    wait_until_drained(&world.server, PARTITIONS);
    assert_eq!(countd.api().counts(4)["read"], 1);
    assert_eq!(len(&world, &short), 6);
    assert_eq!(dead_reasons(&world.server, CONFIG), Vec::<String>::new());
}

on_each!([module plain cluster]
    what_was_never_made_for_its_schema_is_left_as_it_is
    what_is_older_than_its_schema_grows
);
