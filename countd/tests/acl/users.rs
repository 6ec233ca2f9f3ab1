//! The users that `countd acl` prints have exactly the required permissions.

use super::{CONFIG, METRICS, PARTITIONS, act, operator};
use crate::console::browser::Browser;
use crate::support::stores::{TestStore, for_each_store, move_days_back, wait_until_compacted};
use crate::support::{
    Api, Countd, EventStream, Settings, on_note, printed, run, run_as_user, set_schema,
    wait_until_drained, with,
};
use countint_tests::{Client, wait_until};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;

/// Limits users, announces changes, reports hot entities and filters statuses, so that the permissions for these are used, too.
fn limited_config() -> String {
    let limited = CONFIG.replacen("per_second = 0", "per_second = 1000\nburst = 1000", 1);
    format!(
        "{limited}[changes]\nenabled = true\n[hot]\nmin_rate = 1\n[prefilter]\nenabled = true\n"
    )
}

/// Creates the users that `countd acl` prints. Returns their names.
fn create_users(store: &TestStore, operator: &mut Client, config: &str) -> Vec<String> {
    let output = printed(&run(&store.server, config, &["acl", "--user", "counting"]));
    let users = output.lines().map(|line| {
        operator.ok(&line.replace(">PASSWORD", ">secret"));
        line.split(' ').nth(2).expect("a user").to_owned()
    });
    users.collect()
}

/// The commands and keys that were refused to users other than `default`.
fn refusals(store: &TestStore) -> Vec<String> {
    let mut refused = store.refused_commands();
    refused.retain(|entry| entry.contains("counting"));
    refused
}

/// Uses every route of the API.
fn use_api(api: &Api) {
    let mut changes = EventStream::open(api.port(), "/changes", &[("last-event-id", "1")]);
    changes.wait_for_id();
    for metric in METRICS {
        for key in ["first", "first", "second"] {
            assert_eq!(act(api, metric, 1, "add", key), 200, "{metric}");
        }
        assert_eq!(act(api, metric, 1, "remove", "third"), 200, "{metric}");
        assert_eq!(act(api, metric, 1, "add", "fourth"), 200, "{metric}");
        for uid in 2..6 {
            let action = with(on_note(1, uid), json!({ "author": 7 }));
            api.act(metric, action);
        }
        api.act(metric, with(on_note(1, 2), json!({ "op": "remove" })));
    }
    for metric in &METRICS[1..] {
        api.ok(api.get(&format!("/status/note/1?uid=1&metrics={metric}")));
        let mut cursor = String::new();
        loop {
            let page = api.ok(api.get(&format!("/who/{metric}/note/1?limit=2{cursor}")));
            match page["cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
    }
    api.counts(1);
    api.user(7);
    let note = json!({ "etype": "note", "eid": 2 });
    api.ok(api.post("/counter/reset", &with(note, json!({ "metric": "read" }))));
    let envelope = |id: &str| {
        json!({
            "event_id": id, "event_type": "x", "aggregate_type": "note", "aggregate_id": 1,
            "payload": { "metric": "like", "delta": 1, "uid": 9 },
        })
    };
    api.ok(api.post("/events", &json!([envelope("e1"), envelope("e2")])));
    assert_eq!(api.get("/readyz").0, 200);
    let page = vec![json!({ "etype": "note", "eid": 1 }); 500];
    let page = json!({ "items": page });
    wait_until("the note is hot", || {
        api.ok(api.post("/counter/batch", &page));
        api.ok(api.get("/hot"))["items"] != json!([])
    });
}

/// Uses every page of the console.
fn use_console(api: &Api) {
    let browser = Browser::new(api.port());
    for path in [
        "/admin",
        "/admin/entity?etype=note&eid=1",
        "/admin/user?uid=1",
        "/admin/audit",
        "/admin/reconciliation",
        "/admin/schemas",
    ] {
        browser.page(path);
    }
    let mut dead = browser.page("/admin/dead");
    wait_until("a dead letter is listed", || {
        dead = browser.page("/admin/dead");
        dead.text.contains("name=\"id\" value=\"")
    });
    let id = dead.text.split("name=\"id\" value=\"").nth(1);
    let id = id.and_then(|rest| rest.split('"').next()).expect("an ID");
    let fields = [
        ("form_token", dead.form_token()),
        ("action", "retry"),
        ("id", id),
    ];
    let retried = browser.submit("/admin/dead", &fields);
    assert_eq!(retried.header("location"), "/admin/dead?retried=1&left=0");
}

/// Appends, as another client, an entry that cannot be counted and entries with a foreign ID.
fn append_foreign_entries(store: &TestStore, operator: &mut Client) {
    let log = store.log(TestStore::partition("note:1", PARTITIONS));
    let event = with(on_note(1, 9), json!({ "metric": "read", "delta": 1 })).to_string();
    operator.call(&["XADD", &log, "0-*", "e", "{"]);
    operator.call(&["XADD", &log, "0-*", "e", "["]);
    operator.call(&["XADD", &log, "*", "e", &event]);
    operator.call(&["XADD", &log, "*", "e", "{"]);
}

/// Runs every command for operators.
fn operate(store: &TestStore, user: &str, config: &str, operator: &mut Client) {
    let run = |arguments: &[&str]| printed(&run_as_user(&store.server, user, config, arguments));
    run(&["check"]);
    run(&["schema", "set", "other", "a", "b"]);
    run(&["schema", "extend", "other", "c"]);
    run(&["schema", "get", "other"]);
    assert_eq!(run(&["schema", "list"]).lines().count(), 2);
    let letters = run(&["dead", "list"]);
    let id = |line: &str| {
        let letter: Json = serde_json::from_str(line).expect("JSON");
        letter["id"].as_str().expect("an ID").to_owned()
    };
    let ids: Vec<String> = letters.lines().map(id).collect();
    assert_eq!(ids.len(), 3, "{letters}");
    run(&["dead", "drop", &ids[0]]);
    run(&["dead", "retry", "--all"]);
    assert_eq!(run(&["log", "list"]), "");
    let partition = TestStore::partition("note:3", PARTITIONS);
    let positions = store.positions(partition);
    operator.ok(&format!("HSET {positions} {partition} damaged"));
    assert_eq!(run(&["log", "list"]).lines().count(), 1);
    let partition = partition.to_string();
    run(&[
        "log",
        "reset",
        &partition,
        "--uncounted",
        "all",
        "--dry-run",
    ]);
    run(&["log", "reset", &partition, "--uncounted", "all"]);
}

fn printed_users_may_do_everything(store: TestStore) {
    let config: &'static str = limited_config().leak();
    set_schema(&store.server, config);
    let mut operator = operator(&store);
    let users = create_users(&store, &mut operator, config);
    assert_eq!(
        users,
        [
            "counting-serve",
            "counting-consume",
            "counting-relay",
            "counting-sink",
            "counting"
        ]
    );
    let start =
        |command, user: &str| Countd::as_user(&store.server, &Settings { command, config }, user);
    // Serving and consuming apart, then in one process.
    for processes in [
        vec![("consume", "counting-consume"), ("serve", "counting-serve")],
        vec![("all", "counting")],
    ] {
        operator.ok("FLUSHALL");
        set_schema(&store.server, config);
        let running: Vec<Countd> = processes
            .iter()
            .map(|(command, user)| start(command, user))
            .collect();
        let api = running.last().expect("a process").api();
        use_api(&api);
        append_foreign_entries(&store, &mut operator);
        wait_until_drained(&store.server, PARTITIONS);
        use_console(&api);
        wait_until_drained(&store.server, PARTITIONS);
        move_days_back(&store, PARTITIONS);
        wait_until_compacted(&store, PARTITIONS);
        use_api_after_compaction(&api);
        operate(&store, "counting", config, &mut operator);
        wait_until_drained(&store.server, PARTITIONS);
        drop(running);
        assert_eq!(refusals(&store), Vec::<String>::new(), "{processes:?}");
    }
}

/// Reads and removes facts of past days.
fn use_api_after_compaction(api: &Api) {
    let status = api.ok(api.get("/status/note/1?uid=1&metrics=comment"));
    assert_eq!(status["status"]["comment"], true);
    api.ok(api.get("/who/comment/note/1?limit=2"));
    assert_eq!(act(api, "comment", 1, "remove", "fifth"), 200);
}

/// The number of commands or patterns that are taken away at once.
const AT_ONCE: usize = 12;

/// At its start countd reports each printed command that is not permitted. Several commands are revoked at once. A command that the report
/// does not name, because another one has the same effect, is revoked alone.
fn each_printed_command_is_required(store: TestStore) {
    let config: &'static str = limited_config().leak();
    set_schema(&store.server, config);
    let mut operator = operator(&store);
    create_users(&store, &mut operator, config);
    let output = printed(&run(&store.server, config, &["acl", "--user", "counting"]));
    let line = output.lines().last().expect("a user of all commands");
    let commands: Vec<&str> = line
        .split(' ')
        .filter_map(|rule| rule.strip_prefix('+'))
        .collect();
    assert!(commands.len() > 35, "{commands:?}");
    let check = || run_as_user(&store.server, "counting", config, &["check"]);
    printed(&check());
    // What the check reports without some of the commands.
    let mut without = |commands: &[&str]| {
        let (deny, allow) = (commands.join(" -"), commands.join(" +"));
        operator.ok(&format!("ACL SETUSER counting -{deny}"));
        let output = check();
        operator.ok(&format!("ACL SETUSER counting +{allow}"));
        assert!(!output.status.success(), "{commands:?} are not required");
        String::from_utf8_lossy(&output.stderr).to_lowercase()
    };
    for some in strided(&commands) {
        let missing = missing(&without(&some));
        for command in &some {
            let name = name_of(command);
            // Another subcommand may be the one that is named.
            let is_unique = some.iter().filter(|of| name_of(of) == name).count() == 1;
            if !is_unique || !missing.iter().any(|item| first_word(item) == name) {
                let error = without(&[command]);
                assert!(error.contains(name), "{command}: {error}");
            }
        }
    }
    printed(&check());
    let patterns: Vec<&str> = line.split(' ').filter(|rule| rule.contains('~')).collect();
    let mut without = |some: &[&str]| {
        let others = patterns.iter().filter(|pattern| !some.contains(pattern));
        let others: Vec<&str> = others.copied().collect();
        operator.ok(&format!(
            "ACL SETUSER counting resetkeys {}",
            others.join(" ")
        ));
        let output = check();
        assert!(!output.status.success(), "{some:?} are not required");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for some in strided(&patterns) {
        let missing = missing(&without(&some));
        let examples = missing.iter().filter_map(|item| {
            let (_, example) = item.split_once("keys such as ")?;
            Some(example.trim())
        });
        // The keys that only one pattern allows.
        let only = examples.filter_map(|key| {
            let mut allowing = patterns.iter().filter(|pattern| allows(pattern, key));
            allowing.next().filter(|_| allowing.next().is_none())
        });
        let proven: BTreeSet<&str> = only.copied().collect();
        for pattern in some.iter().filter(|pattern| !proven.contains(**pattern)) {
            without(&[pattern]);
        }
    }
}

/// Lists of up to [`AT_ONCE`] items each, in which neighbours are apart: these often have the same cause.
fn strided<'l>(items: &[&'l str]) -> Vec<Vec<&'l str>> {
    let lists = items.len().div_ceil(AT_ONCE);
    let list = |first| items.iter().skip(first).step_by(lists).copied().collect();
    (0..lists).map(list).collect()
}

/// A command without its subcommand.
fn name_of(command: &str) -> &str {
    command.split('|').next().expect("a name")
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

/// What a check reports to be missing.
fn missing(error: &str) -> Vec<String> {
    let reported = error.split("may not use: ").nth(1).unwrap_or_default();
    let items = reported.split(';').map(|item| item.trim().to_owned());
    items.collect()
}

/// Whether a rule for keys (`~rbm:*`, `%R~rbm:*`) allows a key.
fn allows(rule: &str, key: &str) -> bool {
    let (_, pattern) = rule.split_once('~').expect("a rule for keys");
    assert!(!pattern.contains(['[', '?', '\\']), "{rule}");
    let mut parts = pattern.split('*');
    let Some(mut rest) = key.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

for_each_store!([module plain cluster]
    printed_users_may_do_everything
    each_printed_command_is_required
);
