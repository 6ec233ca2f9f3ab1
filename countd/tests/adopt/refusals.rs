//! What an adoption refuses, reports and leaves, and what is refused while one runs.

use super::setup::{
    CONFIG, PARTITIONS, action, adopt, advance, assert_adopted, not_converted, send_all, start,
};
use crate::support::stores::{adoptable, module, plain};
use crate::support::{
    Countd, on_note, printed, run, run_as_user, set_schema, wait_until_drained, with,
};
use countint_tests::env::TempDir;
use countint_tests::{Server, reply, wait_until};
use serde_json::json;

fn refused(server: &Server, reason: &str) {
    let (succeeded, _, errors) = start(server, &CONFIG, &[]).end();
    assert!(!succeeded && errors.contains(reason), "{errors}");
}

#[test]
fn a_server_without_the_module_is_refused() {
    let store = plain();
    set_schema(&store.server, &CONFIG);
    refused(&store.server, "servers without the module: 127.0.0.1:");
    let counters = store.server.client().ok("HGET countd:layout counters");
    assert_eq!(reply::text(counters), "plain");
}

/// It would not execute what its primary does.
#[test]
fn a_replica_without_the_module_is_refused() {
    let mut store = adoptable();
    let countd = Countd::start(&store.server, &CONFIG);
    countd.api().act("like", on_note(7, 1));
    wait_until_drained(&store.server, PARTITIONS);
    let builder = Server::builder().replica_of(&store.server).no_module();
    let mut replica = builder.config("enable-module-command local").start();
    store.server.load_module();
    let address = format!("127.0.0.1:{}", replica.port());
    refused(
        &store.server,
        &format!("servers without the module: {address}"),
    );
    let counters = store.server.client().ok("HGET countd:layout counters");
    assert_eq!(reply::text(counters), "plain");
    replica.load_module();
    adopt(&store.server, &CONFIG);
    assert_adopted(&store.server, &CONFIG);
    wait_until("the replica has what its primary has", || {
        let kind = replica.client().ok("TYPE rbm:like:note:7");
        reply::text(kind) == "RoaringBM"
    });
    let marked = replica.client().ok("RBM.CONTAINS rbm:like:note:7 1");
    assert_eq!(reply::int(marked), 1);
}

#[test]
fn data_of_the_module_stays() {
    let store = module();
    let countd = Countd::start(&store.server, &CONFIG);
    countd.api().act("like", on_note(7, 1));
    let printed = adopt(&store.server, &CONFIG);
    assert!(
        printed.contains("converted 0 keys and moved 0"),
        "{printed}"
    );
    assert_eq!(countd.api().counts(7)["like"], 1);
}

/// Its process sends no heartbeat.
#[test]
fn consumers_of_an_older_version_are_refused() {
    let mut store = adoptable();
    set_schema(&store.server, &CONFIG);
    store.server.load_module();
    let mut client = store.server.client();
    client.ok("ZADD countd:consumers 9999999999999 1-0123456789abcdef/10000");
    refused(&store.server, "is of an older version");
    let counters = client.ok("HGET countd:layout counters");
    assert_eq!(reply::text(counters), "plain");
}

/// They would lose what another process writes. Nothing is changed.
#[test]
fn other_migrations_are_refused_meanwhile() {
    let mut store = adoptable();
    let countd = Countd::start(&store.server, &CONFIG);
    countd.api().act("like", on_note(7, 1));
    wait_until_drained(&store.server, PARTITIONS);
    store.server.load_module();
    let archive = TempDir::new();
    let dir = archive.path().to_str().expect("a text");
    for step in ["plain-or-module", "module-or-plain"] {
        advance(&store.server, &CONFIG, step);
        let before = reply::text(store.server.client().ok("HGET countd:layout epoch"));
        for (arguments, reason) in [
            (
                &["storage", "migrate", "note"][..],
                "`countd storage adopt` converts it",
            ),
            (
                &["reverse", "backfill", "like"],
                "an adoption converts the data: finish `countd storage adopt` first",
            ),
            (
                &["rebuild", "--from", "earliest", "--archive", dir],
                "an adoption converts the data: finish `countd storage adopt` first",
            ),
        ] {
            let output = run(&store.server, &CONFIG, arguments);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
            assert!(errors.contains(reason), "{arguments:?}: {errors}");
        }
        let mut client = store.server.client();
        let layout = ["counters", "epoch"].map(|field| {
            let value = client.ok(&format!("HGET countd:layout {field}"));
            reply::text(value)
        });
        assert_eq!(layout, [step.to_owned(), before]);
        let checked = printed(&run(&store.server, &CONFIG, &["check"]));
        assert!(
            checked.contains("`countd storage adopt` finishes that"),
            "{checked}"
        );
    }
    adopt(&store.server, &CONFIG);
    assert_adopted(&store.server, &CONFIG);
    assert_eq!(countd.api().counts(7)["like"], 1);
}

#[test]
fn a_check_says_how_to_convert_the_data() {
    let mut store = adoptable();
    set_schema(&store.server, &CONFIG);
    store.server.load_module();
    let checked = printed(&run(&store.server, &CONFIG, &["check"]));
    assert!(
        checked.contains("`countd storage adopt` converts them"),
        "{checked}"
    );
}

/// The others are converted, and the next run needs `--skip-damaged` or a repair.
#[test]
fn damaged_keys_are_reported() {
    let mut store = adoptable();
    let countd = Countd::start(&store.server, &CONFIG);
    let api = countd.api();
    api.act("like", on_note(7, 1));
    wait_until_drained(&store.server, PARTITIONS);
    let mut client = store.server.client();
    client.ok("SADD rbm:like:note:8 name");
    client.ok("RPUSH cnt:v1:note:9 x");
    store.server.load_module();
    let (succeeded, _, errors) = start(&store.server, &CONFIG, &[]).end();
    assert!(!succeeded, "{errors}");
    for expected in [
        "rbm:like:note:8",
        "cnt:v1:note:9",
        "2 objects cannot be moved",
    ] {
        assert!(errors.contains(expected), "{errors}");
    }
    let (succeeded, printed, errors) = start(&store.server, &CONFIG, &["--skip-damaged"]).end();
    assert!(succeeded, "{errors}");
    assert!(printed.contains("left: rbm:like:note:8"), "{printed}");
    assert_eq!(api.counts(7)["like"], 1);
    assert_eq!(reply::text(client.ok("TYPE rbm:like:note:7")), "RoaringBM");
}

/// The user of the data without the module lacks the commands of the module until the new rules of `countd acl` apply.
#[test]
fn a_user_without_the_permissions_is_refused() {
    let mut store = adoptable();
    set_schema(&store.server, &CONFIG);
    let mut client = store.server.client();
    let allow = |server: &Server| {
        let printed = printed(&run(server, &CONFIG, &["acl", "--user", "counting"]));
        for line in printed.lines() {
            server.client().ok(&line.replace(">PASSWORD", ">secret"));
        }
    };
    allow(&store.server);
    // Data of each kind.
    let countd = Countd::start(&store.server, &CONFIG);
    let api = countd.api();
    let likes = (1..=30).map(|note| action("like", note, 1));
    let actions = likes.chain([action("fav", 1, 1)]);
    send_all(&store.server, &api, &actions.collect::<Vec<_>>());
    api.act("read", on_note(1, 1));
    api.act("publish", with(on_note(1, 7), json!({ "author": 7 })));
    api.ok(api.post(
        "/events",
        &json!({
            "event_id": "17", "event_type": "repost", "aggregate_type": "note", "aggregate_id": 1,
            "payload": { "delta": 1, "uid": 42 },
        }),
    ));
    wait_until_drained(&store.server, PARTITIONS);
    store.server.load_module();
    let adopt_as_user = || {
        run_as_user(
            &store.server,
            "counting",
            &CONFIG,
            &["storage", "adopt", "--grace", "1"],
        )
    };
    let output = adopt_as_user();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("RBM."),
        "{errors}"
    );
    assert!(!not_converted(&store.server).is_empty());
    let counters = client.ok("HGET countd:layout counters");
    assert_eq!(reply::text(counters), "plain");
    allow(&store.server);
    let output = adopt_as_user();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_adopted(&store.server, &CONFIG);
}
