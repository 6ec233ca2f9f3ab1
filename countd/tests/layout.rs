//! The stored layout: how data is partitioned and stored is decided once, when it is created.

use crate::support::stores::TestStore;
use crate::support::{Countd, on_note, printed, run, set_schema, wait_until_drained};
use countint_tests::{Client, Server, reply};
use std::collections::BTreeMap;

fn layout(client: &mut Client) -> BTreeMap<String, String> {
    let fields = reply::array(client.ok("HGETALL countd:layout"));
    let texts: Vec<String> = fields.into_iter().map(reply::text).collect();
    texts
        .chunks(2)
        .map(|pair| (pair[0].clone(), pair[1].clone()))
        .collect()
}

fn fails(server: &Server, config: &str, reason: &str) {
    let output = run(server, config, &["check"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && error.contains(reason),
        "{error}"
    );
}

#[test]
fn new_data_has_tables_and_the_partitions_of_kafka() {
    let server = Server::start();
    let countd = Countd::start(&server, "");
    let api = countd.api();
    api.act("like", on_note(1, 42));
    api.act("read", on_note(1, 42));
    wait_until_drained(&server, 1024);
    let mut client = server.client();
    let layout = layout(&mut client);
    let field = |name: &str| layout.get(name).map(String::as_str);
    assert_eq!(field("partitions"), Some("1024/murmur2"));
    assert_eq!(field("hash"), Some("murmur2"));
    assert_eq!(field("authors"), Some("registry"));
    assert_eq!(
        field("author_metrics"),
        Some("fav>favsReceived like>likesReceived")
    );
    for types in ["default", "note", "user"] {
        assert_eq!(field(&format!("storage:{types}")), Some("table"));
    }
    let partition = TestStore::partition("note:1", 1024);
    assert_eq!(partition, 382, "as Kafka partitions note:1");
    client.expect(
        &format!("CTAB.GET tab:v1:note:{partition} 1 0"),
        "(integer) 1",
    );
    client.expect(
        &format!("CTAB.GET tab:v1:note:{partition} 1 1"),
        "(integer) 1",
    );
    client.expect("EXISTS cnt:v1:note:1", "(integer) 0");
}

/// Data of a version that stored only `partitions` and `counters`.
#[test]
fn data_of_an_older_version_keeps_its_partitions_and_objects() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("HSET countd:layout partitions 1024 counters module");
    set_schema(&server, "");
    // note:1 is in partition 941 by CRC-16.
    client.ok("CINT.INCRBY cnt:v1:note:1 1 5 LEN 5");
    client.ok("RBM.ADD rbm:like:note:1 1 2 3 4 5");
    let countd = Countd::start(&server, "[users]\nstorage = \"table\"\n");
    let api = countd.api();
    assert_eq!(api.act("like", on_note(1, 42))["count"], 6);
    assert_eq!(api.act("read", on_note(1, 42))["changed"], true);
    client.expect("XLEN x:cnt-update:941", "(integer) 2");
    wait_until_drained(&server, 1024);
    assert_eq!(api.counts(1)["read"], 1);
    client.expect("CINT.GET cnt:v1:note:1 0", "(integer) 1");
    let layout = layout(&mut client);
    assert_eq!(layout["partitions"], "1024");
    assert_eq!(layout["hash"], "crc16");
    assert_eq!(layout["authors"], "event");
    for types in ["default", "note", "user"] {
        assert_eq!(layout[&format!("storage:{types}")], "object");
    }
}

#[test]
fn the_storage_of_existing_data_does_not_change_with_the_configuration() {
    let server = Server::start();
    let objects = "[entities]\nnote = { schema = \"v1\", storage = \"object\" }\n[users]\nstorage = \"object\"\n";
    set_schema(&server, objects);
    {
        let countd = Countd::start(&server, objects);
        countd.api().act("like", on_note(1, 42));
    }
    let mut client = server.client();
    client.expect("CINT.GET cnt:v1:note:1 1", "(integer) 1");
    let countd = Countd::start(&server, "");
    let api = countd.api();
    assert_eq!(api.act("like", on_note(1, 43))["count"], 2);
    client.expect("CINT.GET cnt:v1:note:1 1", "(integer) 2");
    let found = printed(&run(&server, "", &["check"]));
    assert!(
        found.contains("note: counters of note are objects, although the configuration says table"),
        "{found}"
    );
}

#[test]
fn checking_a_configuration_does_not_choose_the_storage() {
    let server = Server::start();
    set_schema(&server, "");
    server.client().ok("DEL countd:layout");
    let objects = "[entities]\nnote = { schema = \"v1\", storage = \"object\" }\n";
    let checked = printed(&run(&server, objects, &["check"]));
    // The first start keeps all configured metrics for users.
    assert!(!checked.contains("backfill"), "{checked}");
    let countd = Countd::start(&server, "");
    countd.api().act("like", on_note(1, 42));
    let table = format!("tab:v1:note:{}", TestStore::partition("note:1", 1024));
    server
        .client()
        .expect(&format!("CTAB.GET {table} 1 1"), "(integer) 1");
}

#[test]
fn layouts_of_newer_versions_are_refused() {
    for (field, value) in [
        ("hash", "xxh3"),
        ("counters", "other"),
        ("storage:note", "striped"),
        ("storage:default", ""),
    ] {
        let server = Server::start();
        set_schema(&server, "");
        server
            .client()
            .call(&["HSET", "countd:layout", field, value]);
        fails(
            &server,
            "",
            &format!("{field} of this data is {value:?}, which this version does not support"),
        );
    }
}

/// A version that knows only CRC-16 compares `partitions` with its own number.
#[test]
fn older_versions_refuse_new_data() {
    let server = Server::start();
    set_schema(&server, "");
    let partitions = layout(&mut server.client())["partitions"].clone();
    assert_ne!(partitions, "1024");
}

/// The place of a counter is its column in the tables of authors.
#[test]
fn the_list_of_counters_that_metrics_feed_only_grows() {
    let server = Server::start();
    let mut client = server.client();
    let metrics = |name: &str, count: &str| {
        format!(
            "[metrics.{name}]\nnature = \"once\"\ncount = \"{count}\"\nusers = [{{ counter = \"likesReceived\", of = \"author\" }}]\n"
        )
    };
    for (name, expected) in [
        ("like", "like>likesReceived"),
        ("applaud", "like>likesReceived applaud>likesReceived"),
        ("like", "like>likesReceived applaud>likesReceived"),
    ] {
        Countd::start(&server, &metrics(name, "now"));
        assert_eq!(layout(&mut client)["author_metrics"], expected);
    }
    fails(&server, &metrics("follow", "never"), "metrics.follow.users");
}
