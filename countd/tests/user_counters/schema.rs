//! The stored schema of the counters of users.

use super::{BASE, PARTITIONS, counters};
use crate::support::stores::{TestStore, for_each_store, module};
use crate::support::{
    Countd, Settings, dead_reasons, on_note, printed, run, set_schema, wait_until_drained, with,
};
use countint_tests::reply;
use serde_json::json;
use std::process::Output;

fn with_counters(names: &str) -> String {
    format!("{BASE}[users]\ncounters = [{names}]\n")
}

/// A metric that feeds `unread` of authors and targets.
const FEEDS: &str = r#"
[metrics.like]
nature = "once"
count = "now"
users = [{ counter = "likesReceived", of = "author" }, { counter = "unread", of = "author" }]
[metrics.notify]
nature = "repeatable"
count = "never"
entities = ["user"]
users = [{ counter = "unread", of = "target" }]
"#;

#[track_caller]
fn fails(output: &Output, with: &str) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains(with),
        "{errors}"
    );
}

fn counters_are_appended_across_restarts(store: TestStore) {
    // Objects and tables with the five counters.
    let mut countd = Countd::start(&store.server, BASE);
    let users = ["7", "u-7"];
    let like = |note: usize, uid: u64, author: &str| {
        with(on_note(note as u64, uid), json!({ "author": author }))
    };
    for (note, author) in users.iter().enumerate() {
        countd.api().act("like", like(note, 42, author));
    }
    wait_until_drained(&store.server, PARTITIONS);
    let schema = store.schema("user");
    let mut client = store.server.client();
    assert_eq!(
        reply::int(client.ok(&format!("EXISTS {schema}"))),
        0,
        "the five are not stored"
    );
    countd.stop();

    for (names, unread) in [("\"unread\"", 1), ("\"unread\",\"coins\"", 2)] {
        let config = format!("{}{FEEDS}", with_counters(names));
        let config = config.as_str();
        let settings = Settings {
            command: "all",
            config,
        };
        let mut countd = Countd::with(&store.server, &settings);
        let api = countd.api();
        for (note, author) in users.iter().enumerate() {
            api.act("like", like(note, 42 + unread, author));
        }
        wait_until_drained(&store.server, PARTITIONS);
        for author in users {
            // A new counter gets the whole count of each entity, like the others.
            let expected = json!({ "likesReceived": 1 + unread, "unread": 1 + unread });
            assert_eq!(counters(&api, author), expected, "{names}: {author}");
        }
        assert_eq!(dead_reasons(&store.server, config), Vec::<String>::new());
        countd.stop();
    }
    assert_transfers_move_each_credit(&store, &users);
    // On one server, the commit itself credits authors whose objects are older than the counter.
    if !schema.contains('{') {
        let outboxes = client.run("KEYS x:cnt-update:*:out");
        assert_eq!(outboxes, "(empty array)", "nothing is forwarded");
    }
    let stored = "user: followings followers posts likesReceived favsReceived unread coins\n";
    assert_eq!(
        printed(&run(&store.server, BASE, &["schema", "get", "user"])),
        stored
    );
}

/// Likes of a new note, and a transfer of the notes whose authors had got credits before the counter existed.
fn assert_transfers_move_each_credit(store: &TestStore, users: &[&str]) {
    let config = &format!("{}{FEEDS}", with_counters("\"unread\",\"coins\"")).replace(
        "of = \"author\" }]",
        "of = \"author\" }, { counter = \"coins\", of = \"author\" }]",
    );
    let command = "all";
    let mut countd = Countd::with(&store.server, &Settings { command, config });
    let api = countd.api();
    for author in users {
        let new = with(
            on_note(100, 42),
            json!({ "author": author, "eid": format!("9-{author}") }),
        );
        api.act("like", new);
    }
    wait_until_drained(&store.server, PARTITIONS);
    for author in users {
        let expected = json!({ "likesReceived": 4, "unread": 4, "coins": 1 });
        assert_eq!(counters(&api, author), expected, "{author}");
    }
    for (note, _) in users.iter().enumerate() {
        api.ok(api.put(&format!("/entity/note/{note}"), &json!({ "author": "9" })));
    }
    wait_until_drained(&store.server, PARTITIONS);
    for author in users {
        let expected = json!({ "likesReceived": 1, "unread": 1, "coins": 1 });
        assert_eq!(counters(&api, author), expected, "{author}");
    }
    let expected = json!({ "likesReceived": 6, "unread": 6, "coins": 6 });
    assert_eq!(counters(&api, "9"), expected);
    countd.stop();
}

fn shorter_configurations_continue_to_work(store: TestStore) {
    set_schema(&store.server, BASE);
    // It knows only the five, and keeps running.
    let command = "all";
    let old = Countd::with(
        &store.server,
        &Settings {
            command,
            config: BASE,
        },
    );
    let api = old.api();
    assert_eq!(counters(&api, "7"), json!({}));
    let config = &with_counters("\"unread\",\"coins\"");
    let command = "serve";
    let new = Countd::with(&store.server, &Settings { command, config });
    // Increments of other partitions name the counter.
    let mut client = store.server.client();
    for user in ["7", "u-7"] {
        let log = store.log(TestStore::partition(user, PARTITIONS));
        let adds = format!(
            r#"{{"adds":[["{user}","unread",2],["{user}","gems",1],["{user}","posts",1]]}}"#
        );
        client.call(&["XADD", &log, "0-*", "d", &adds]);
    }
    wait_until_drained(&store.server, PARTITIONS);
    for user in ["7", "u-7"] {
        for api in [&api, &new.api()] {
            let selected = format!("/relation/counter?uid={user}&counters=unread,posts");
            let expected = json!({ "uid": user, "counts": { "posts": 1, "unread": 2 } });
            assert_eq!(api.ok(api.get(&selected)), expected);
        }
    }
    let reason = "there is no counter gems of users";
    assert_eq!(dead_reasons(&store.server, BASE), [reason, reason]);
    // A service of the old process can reset it.
    let reset = json!({ "uid": "u-7", "counter": "unread" });
    assert_eq!(
        api.ok(api.post("/relation/counter/reset", &reset)),
        json!({ "was": 2 })
    );
    drop((old, new));
    // It starts again, and with a beginning of the list.
    for config in [BASE, &with_counters("\"unread\"")] {
        let command = "all";
        let countd = Countd::with(&store.server, &Settings { command, config });
        assert_eq!(
            counters(&countd.api(), "7"),
            json!({ "posts": 1, "unread": 2 })
        );
    }
    // The dead letters count when the counter exists.
    printed(&run(
        &store.server,
        BASE,
        &["schema", "extend", "user", "gems"],
    ));
    let countd = Countd::with(
        &store.server,
        &Settings {
            command: "all",
            config: BASE,
        },
    );
    printed(&run(&store.server, BASE, &["dead", "retry", "--all"]));
    wait_until_drained(&store.server, PARTITIONS);
    let expected = json!({ "gems": 1, "posts": 1, "unread": 2 });
    assert_eq!(counters(&countd.api(), "7"), expected);
}

for_each_store!([module objects plain cluster cluster_objects]
    counters_are_appended_across_restarts
    shorter_configurations_continue_to_work
);

#[test]
fn removed_and_moved_counters_are_refused() {
    let store = module();
    let server = &store.server;
    set_schema(server, BASE);
    drop(Countd::with(
        server,
        &Settings {
            command: "all",
            config: &with_counters("\"unread\",\"coins\""),
        },
    ));
    let problem = "users.counters does not match this data, whose users have the counters followings followers posts \
                   likesReceived favsReceived unread coins: counters can be appended, but not removed, renamed or moved";
    for names in [
        "\"coins\"",
        "\"coins\",\"unread\"",
        "\"unread\",\"gems\",\"coins\"",
    ] {
        let config = &with_counters(names);
        for command in ["all", "serve", "consume", "check"] {
            fails(&run(server, config, &[command]), problem);
        }
    }
    let mut client = server.client();
    assert_eq!(reply::text(client.ok("HGET schema:user len")), "7");
    // The ID is reserved.
    let config = format!("{BASE}[entities]\nnote = \"user\"\n");
    fails(&run(server, &config, &["check"]), "entities.note");
    let other = run(server, BASE, &["schema", "set", "user", "a", "b"]);
    fails(&other, "schema user exists with other names");
    client.ok("DEL schema:user schema:user:idx_by_name");
    client.ok("HSET schema:user len 1 0 a");
    fails(&run(server, BASE, &["all"]), "schema:user is damaged");
}

#[test]
fn check_shows_the_counters_of_users() {
    let store = module();
    let server = &store.server;
    set_schema(server, BASE);
    let five = "schema user: followings followers posts likesReceived favsReceived";
    let text = printed(&run(server, BASE, &["check"]));
    assert!(text.contains(&format!("{five}\n")), "{text}");
    let config = &with_counters("\"unread\",\"coins\"");
    let text = printed(&run(server, config, &["check"]));
    let note = "note: countd will append to the counters of users when it starts: unread coins\n";
    assert!(
        text.contains(&format!("{five}\n")) && text.contains(note),
        "{text}"
    );
    let keys = server.client().run("KEYS schema:user*");
    assert_eq!(keys, "(empty array)", "it writes nothing");
    drop(Countd::with(
        server,
        &Settings {
            command: "all",
            config,
        },
    ));
    let text = printed(&run(server, config, &["check"]));
    assert!(text.contains(&format!("{five} unread coins\n")), "{text}");
    assert!(!text.contains("will append"), "{text}");
}
