//! Commands that end soon.

use super::{Printed, with_json};
use crate::support::kafka::{Mock, config as kafka_config};
use crate::support::stores::{TestStore, cluster, for_each_store, module};
use crate::support::{printed, run, set_schema};
use countint_tests::env::TempDir;
use countint_tests::reply;
use serde_json::{Value as Json, json};
use std::fs;

const CONFIG: &str = "[log]\npartitions = 16\n";

for_each_store! {
    [module plain cluster]
    schemas_are_objects
    resets_of_logs_are_objects
    users_of_redis_have_the_same_rules_as_in_text
}

/// Runs the words of a command with `--json`.
#[track_caller]
fn json_of(store: &TestStore, config: &str, words: &str) -> Printed {
    let words: Vec<&str> = words.split_whitespace().collect();
    with_json(store, config, &words)
}

/// Runs the words of a command without `--json`.
#[track_caller]
fn text_of(store: &TestStore, config: &str, words: &str) -> String {
    let words: Vec<&str> = words.split_whitespace().collect();
    printed(&run(&store.server, config, &words))
}

fn schemas_are_objects(store: TestStore) {
    let json = |words: &str| json_of(&store, CONFIG, words);
    let two = json!({ "id": "t1", "counters": ["read", "like"] });
    assert_eq!(*json("schema set t1 read like").report(), two);
    assert_eq!(*json("schema get t1").report(), two);
    let three = json!({ "id": "t1", "counters": ["read", "like", "share"] });
    assert_eq!(*json("schema extend t1 share").report(), three);
    json("schema set t2 a").report();
    let listed = json("schema list");
    let schemas = listed.report()["schemas"].as_array().expect("a list");
    assert!(schemas.contains(&three), "{schemas:?}");
    let line = |schema: &Json| {
        let counters = schema["counters"].as_array().expect("a list").iter();
        let counters: Vec<&str> = counters.filter_map(Json::as_str).collect();
        let id = schema["id"].as_str().expect("an ID");
        format!("{id}: {}\n", counters.join(" "))
    };
    let lines: String = schemas.iter().map(line).collect();
    assert_eq!(text_of(&store, CONFIG, "schema list"), lines);
    assert!(json("schema get t3").error().contains("t3"));
    assert!(json("schema set t1 like").error().contains("t1"));
    json("schema extend t1 read").error();
    // One damaged schema: a list is complete or there is none.
    let key = match store.is_cluster() {
        true => "schema:{t2}",
        false => "schema:t2",
    };
    store.server.client().ok(&format!("HSET {key} len 5"));
    json("schema list").error();
}

/// Lets a log end before its position, with this many entries.
fn damage(store: &TestStore, partition: u16, entries: u64) {
    let mut client = store.server.client();
    let (log, positions) = (store.log(partition), store.positions(partition));
    for entry in 1..=entries {
        client.ok(&format!("XADD {log} 0-{entry} e {{}}"));
    }
    client.ok(&format!("HSET {positions} {partition} 100"));
}

fn resets_of_logs_are_objects(store: TestStore) {
    set_schema(&store.server, CONFIG);
    damage(&store, 2, 3);
    damage(&store, 5, 4);
    let json = |words: &str| json_of(&store, CONFIG, words);
    let listed = json("log list");
    assert_eq!(listed.status, 0);
    let partitions: Vec<&Json> = listed
        .output
        .iter()
        .map(|line| &line["partition"])
        .collect();
    assert_eq!(partitions, [2, 5]);
    assert!(listed.output[0]["reason"].is_string());
    let planned = json("log reset 2 5 --uncounted all --dry-run");
    let plan = |partition: u16, entries: u64| json!({ "partition": partition, "position": 100, "former_position": "100", "entries": entries });
    let expected = json!({ "dry_run": true, "partitions": [plan(2, 3), plan(5, 4)] });
    assert_eq!(*planned.report(), expected);
    let expected = "\
partition 2: all 3 entries of its log would be counted; its position would be 100 (now: 100)
partition 5: of the 4 entries of its log, the entries from 0-3 on would be counted and all others deleted; its position would be 100 (now: 100)
";
    let text = [
        text_of(&store, CONFIG, "log reset 2 --uncounted all --dry-run"),
        text_of(&store, CONFIG, "log reset 5 --uncounted 3 --dry-run"),
    ];
    assert_eq!(text.concat(), expected);
    let reset = json("log reset 2 --uncounted all");
    let done = json!({ "partition": 2, "position": 100, "uncounted": 3 });
    let expected = json!({ "dry_run": false, "partitions": [done] });
    assert_eq!(*reset.report(), expected);
    // What was done before a failure is reported, too.
    let failed = json("log reset 5 7 --uncounted 3");
    let done = json!({ "partition": 5, "position": 100, "uncounted": 2 });
    let expected = json!({ "dry_run": false, "partitions": [done] });
    assert_eq!((failed.status, failed.output), (1, vec![expected]));
    let error = failed.errors.last().expect("an error")["error"].to_string();
    assert!(error.contains("partition 7 is healthy"), "{error}");
    assert!(
        json("log reset 2 --uncounted all")
            .error()
            .contains("healthy")
    );
    assert!(
        json("log reset 16 --uncounted all")
            .error()
            .contains("0 to 15")
    );
    damage(&store, 9, 1);
    let text = text_of(&store, CONFIG, "log reset 9 --uncounted none");
    assert_eq!(text, "partition 9: position 100, 0 entries to be counted\n");
}

fn users_of_redis_have_the_same_rules_as_in_text(store: TestStore) {
    let printed = json_of(&store, CONFIG, "acl --user shop");
    let users = printed.report()["users"].as_array().expect("a list").iter();
    let line = |user: &Json| {
        let rules = user["rules"].as_array().expect("a list").iter();
        let rules: Vec<&str> = rules.filter_map(Json::as_str).collect();
        let name = user["name"].as_str().expect("a name");
        // As a script would create it.
        let mut command = vec!["ACL", "SETUSER", name];
        command.extend(&rules);
        assert_eq!(reply::text(store.server.client().call(&command)), "OK");
        command.join(" ") + "\n"
    };
    let lines: Vec<String> = users.map(line).collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(text_of(&store, CONFIG, "acl --user shop"), lines.concat());
}

#[test]
fn dead_letters_are_listed_one_object_a_line() {
    let store = module();
    set_schema(&store.server, CONFIG);
    let mut client = store.server.client();
    for offset in 1..=3 {
        client.ok(&format!(
            "XADD x:cnt-update:dead * kind e reason r payload p partition 1 offset {offset} ts 1"
        ));
    }
    let listed = json_of(&store, CONFIG, "dead list");
    assert_eq!(listed.status, 0);
    let offsets: Vec<&Json> = listed.output.iter().map(|line| &line["offset"]).collect();
    assert_eq!(offsets, [1, 2, 3]);
    let text = text_of(&store, CONFIG, "dead list");
    let lines: Vec<Json> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines, listed.output);
    client.ok("DEL x:cnt-update:dead");
    client.ok("SET x:cnt-update:dead text");
    json_of(&store, CONFIG, "dead list").error();
}

#[test]
fn an_accepted_topic_is_an_object() {
    let (store, mock) = (module(), Mock::start(4));
    let config = kafka_config(&mock.addresses(), 16, "");
    set_schema(&store.server, &config);
    let accepted = json_of(&store, &config, "log accept-topic");
    let (topic, changed) = (&accepted.report()["topic"], &accepted.report()["changed"]);
    assert!(topic.is_string() && *changed == json!(true), "{topic}");
    assert_eq!(accepted.report()["partitions"], 4);
    let again = json_of(&store, &config, "log accept-topic");
    let expected = json!({ "topic": topic, "partitions": 4, "changed": false });
    assert_eq!(*again.report(), expected);
    let text = text_of(&store, &config, "log accept-topic");
    assert_eq!(text, "it is the topic of this data\n");
    let refused = json_of(&module(), CONFIG, "log accept-topic");
    assert!(refused.error().contains("there is no topic"));
}

#[test]
fn what_was_ended_or_accepted_is_an_object() {
    for store in [module(), cluster()] {
        set_schema(&store.server, CONFIG);
        let json = |words: &str| json_of(&store, CONFIG, words).report().clone();
        let recorded = |field: &str| {
            let mut client = store.server.client();
            reply::text(client.call(&["HGET", "countd:layout", field]))
        };
        assert_eq!(json("sink --end"), json!({ "ended": "sink" }));
        assert_eq!(recorded("sink"), "off");
        assert_eq!(json("archive end"), json!({ "ended": "archive" }));
        assert_eq!(recorded("archive"), "off");
        assert_eq!(json("archive accept-loss"), json!({ "accepted": "loss" }));
        let text = text_of(&store, CONFIG, "sink --end");
        assert_eq!(text, "logs are not kept for a sink any more\n");
    }
    let usage = run(&module().server, CONFIG, &["sink", "--json"]);
    assert_eq!(usage.status.code(), Some(2));
}

#[test]
fn what_the_binary_says_about_itself_is_an_object() {
    let (store, dir) = (module(), TempDir::new());
    let json = |words: &str| json_of(&store, CONFIG, words);
    let defaults = json("defaults");
    assert_eq!(defaults.report()["redis"]["ack"], "memory");
    assert_eq!(defaults.report()["http"]["max_actions"], 10_000);
    let completed = json("completions bash");
    assert_eq!(completed.report()["shell"], "bash");
    let script = text_of(&store, CONFIG, "completions bash");
    assert_eq!(completed.report()["script"], script);
    let pages = dir.path().join("pages");
    let written = json(&format!("man {}", pages.display()));
    let names = written.report()["pages"].as_array().expect("a list");
    assert!(names.contains(&json!("countd-schema-get.1")), "{names:?}");
    for name in names {
        assert!(
            pages.join(name.as_str().expect("a name")).exists(),
            "{name}"
        );
    }
    let file = dir.path().join("file");
    fs::write(&file, "").expect("the test's directory is writable");
    let failed = json(&format!("man {}", file.display()));
    assert!(failed.error().contains("cannot write to"));
}

#[test]
fn failures_of_reports_of_their_own_are_objects() {
    let store = module();
    let load = "size --entities 1 --actions 1 --reads 1 --figures /nothing";
    let failed = json_of(&store, CONFIG, load);
    assert!(failed.error().contains("/nothing"));
    let top = "top --url http://127.0.0.1:1 --token-file /nothing";
    let failed = json_of(&store, CONFIG, top);
    assert!(failed.error().contains("/nothing"));
}
