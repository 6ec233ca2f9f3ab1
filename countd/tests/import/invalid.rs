//! Invalid records, and files and options that change between runs.

use super::setup::{Files, PARTITIONS, imported, outcome, set_schema, start};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::wait_until_drained;
use countint_tests::Server;
use std::fs;

/// The problem of a file with one record. It must stop the import before anything is applied.
#[track_caller]
fn problem(server: &Server, files: &Files, words: &str, name: &str, text: &str) -> String {
    let file = files.write(name, text);
    let (status, printed, errors) = outcome(server, words, &file);
    assert_eq!((status, printed.as_str()), (1, ""), "{text}: {errors}");
    imported(server, "forget j", "");
    let at = errors
        .find(&format!("{file}:"))
        .unwrap_or_else(|| panic!("{errors}"));
    errors[at + file.len() + 1..].trim_end().to_owned()
}

#[test]
fn invalid_records_are_reported_with_their_line() {
    let server = Server::start();
    set_schema(&server);
    let files = Files::new();
    for (line, expected) in [
        ("{", "EOF while parsing"),
        ("[]", "not a JSON object"),
        (
            r#"{"etype":"note","eid":1,"uid":2,"metric":"rbm","x":1}"#,
            "unknown field `x`",
        ),
        (
            r#"{"etype":"note","eid":1,"uid":2,"uid":3,"metric":"rbm"}"#,
            "duplicate field `uid`",
        ),
        (
            r#"{"etype":"note","eid":"a:b","uid":2,"metric":"rbm"}"#,
            "an ID has",
        ),
        (
            r#"{"etype":"note","eid":1,"uid":2,"metric":"nope"}"#,
            "there is no metric nope",
        ),
        (
            r#"{"etype":"blog","eid":1,"uid":2,"metric":"rbm"}"#,
            "there is no entity type blog",
        ),
        (
            r#"{"etype":"note","eid":1,"uid":2,"metric":"follow"}"#,
            "entity type note has no metric follow",
        ),
        (
            r#"{"etype":"note","eid":1,"uid":2,"metric":"unrbm"}"#,
            "there is no metric unrbm",
        ),
        (
            r#"{"etype":"note","eid":1,"uid":2,"metric":"read"}"#,
            "read is repeatable: it has no facts",
        ),
        (
            r#"{"etype":"note","eid":1,"uid":"u-1","metric":"rbm"}"#,
            "this metric requires numeric",
        ),
        (
            r#"{"etype":"note","eid":1,"uid":2,"metric":"rbm","ts":1600000000}"#,
            "ts: 1600000000 is not a time",
        ),
    ] {
        let text = format!("\n{line}\n");
        let found = problem(&server, &files, "facts --job j", "f.ndjson", &text);
        assert!(
            found.starts_with("2: ") && found.contains(expected),
            "{line}: {found}"
        );
    }
    for (line, expected) in [
        ("note,1,rbm,5", "rbm: its count is the number of its facts"),
        ("note,1,tip,5", "tip: it also feeds counters of users"),
        ("note,1,ping,5", "ping: entities have no counter of it"),
        ("note,1,nope,5", "there is no metric nope"),
        ("user,1,read,5", "the type user has no schema"),
        ("note,1,read,-5", "read: -5 is negative"),
        (
            "note,1,read,1099511627776",
            "read: 1099511627776 is greater than 1099511627775",
        ),
        ("note,1,read,1e3", "1e3 is not an integer"),
        ("note,1,read", "3 columns, but the header has 4"),
        ("note,\"1,read,5", "a quote is not closed"),
    ] {
        let text = format!("etype,eid,metric,count\n{line}\nnote,2,read,1\n");
        let found = problem(&server, &files, "counts --job j", "c.csv", &text);
        assert!(
            found.starts_with("2: ") && found.contains(expected),
            "{line}: {found}"
        );
    }
    let twice = r#"{"etype":"note","eid":1,"counts":{"read":1,"view":2}}"#;
    let found = problem(&server, &files, "counts --job j", "c.ndjson", twice);
    assert_eq!(found, "1: read: the record has two counts of it");
    let long = format!("{{\"etype\":\"{}\"}}", "x".repeat(70_000));
    let found = problem(&server, &files, "counts --job j", "c.ndjson", &long);
    assert_eq!(found, "1: a line has at most 65536 bytes");
    let found = problem(&server, &files, "counts --job j", "c.csv", "etype,read\n");
    assert_eq!(found, "1: header: column eid is missing");
}

fn a_counter_that_would_exceed_its_maximum_stops_the_import(store: TestStore) {
    let server = &store.server;
    let countd = start(server);
    let files = Files::new();
    let max = files.write("max.csv", "etype,eid,comment\nnote,1,1099511627775\n");
    imported(server, "counts --job a", &max);
    let more = files.write("more.csv", "etype,eid,comment\nnote,2,1\nnote,1,1\n");
    let (status, _, errors) = outcome(server, "counts --job b", &more);
    assert_eq!(status, 1);
    let expected = "more.csv:3: comment of note 1 would exceed the maximum of a counter";
    assert!(errors.contains(expected), "{errors}");
    // The same within one file.
    let sum = files.write(
        "sum.csv",
        "etype,eid,comment\nnote,3,1099511627775\nnote,3,1\n",
    );
    let (status, _, errors) = outcome(server, "counts --job c", &sum);
    assert_eq!(status, 1);
    assert!(
        errors.contains("sum.csv:3: comment of note 3 would exceed"),
        "{errors}"
    );
    let counts = |eid| countd.api().counts(eid)["comment"].clone();
    assert_eq!(
        (counts(1), counts(3)),
        (1_099_511_627_775_u64.into(), 0.into())
    );
}

fn a_damaged_key_stops_the_import(store: TestStore) {
    let server = &store.server;
    set_schema(server);
    let key = store.counters("i1", "note:1", PARTITIONS);
    server.client().ok(&format!("LPUSH {key} x"));
    let files = Files::new();
    let file = files.write("c.csv", "etype,eid,comment\nnote,1,1\n");
    let (status, _, errors) = outcome(server, "counts --job a", &file);
    assert_eq!(status, 1);
    assert!(
        errors.contains(&format!("c.csv:2: {key} holds another type")),
        "{errors}"
    );
    server.client().ok(&format!("DEL {key}"));
    imported(server, "counts --job a", &file);
}

fn skipped_records_are_reported_and_counted_once(store: TestStore) {
    let server = &store.server;
    let countd = start(server);
    let files = Files::new();
    // The invalid records are in three chunks.
    let lines = (1..=20_000).map(|number| match number {
        3 | 10_000 | 20_000 => format!("note,{},x\n", number % 50),
        number => format!("note,{},1\n", number % 50),
    });
    let lines: String = lines.collect();
    let file = files.write("c.csv", format!("etype,eid,comment\n{lines}"));
    let words = "counts --job a --skip-invalid";
    let (status, _, errors) = outcome(server, &format!("{words} 1"), &file);
    assert_eq!(status, 1);
    assert!(
        errors.contains("skipped") && errors.contains("c.csv:4: x is not"),
        "{errors}"
    );
    assert!(
        errors.contains("c.csv:10001: x is not an integer"),
        "{errors}"
    );
    let printed = imported(server, &format!("{words} 3"), &file);
    let expected = "imported: 19997 records (";
    assert!(
        printed.starts_with(expected) && printed.contains("skipped: 3"),
        "{printed}"
    );
    assert!(
        printed.contains("verified: 19997 records, no differences"),
        "{printed}"
    );
    let total: u64 = (0..50)
        .map(|eid| {
            countd.api().counts(eid)["comment"]
                .as_u64()
                .expect("a count")
        })
        .sum();
    assert_eq!(total, 19_997);
    wait_until_drained(server, PARTITIONS);
}

for_each_store! {
    [module objects plain cluster]
    a_counter_that_would_exceed_its_maximum_stops_the_import
    a_damaged_key_stops_the_import
    skipped_records_are_reported_and_counted_once
}

#[test]
fn a_changed_file_or_option_is_refused() {
    let server = Server::start();
    set_schema(&server);
    let files = Files::new();
    let lines: String = (1..=9_000).map(|eid| format!("note,{eid},1\n")).collect();
    let text = format!("etype,eid,comment\n{lines}note,1,x\n");
    let file = files.write("c.csv", &text);
    let run = |words: &str| outcome(&server, &format!("counts --job a {words}"), &file);
    let (status, _, errors) = run("");
    assert!(status == 1 && errors.contains("c.csv:9002: "), "{errors}");
    let refused = |words: &str, expected: &str| {
        let (status, _, errors) = run(words);
        assert!(status == 1 && errors.contains(expected), "{errors}");
    };
    // The same size, but other counts.
    fs::write(&file, text.replacen("note,7,1", "note,7,2", 1)).expect("a file");
    refused(
        "--skip-invalid 1",
        "c.csv has changed since the import started",
    );
    fs::write(&file, format!("{text}note,9,1\n")).expect("a file");
    refused("--skip-invalid 1", "and the file has");
    fs::write(&file, &text).expect("a file");
    refused("--mode set", "was started with other options");
    refused("--etype note", "was started with other options");
    let (status, printed, errors) = run("--skip-invalid 1");
    assert_eq!(status, 0, "{errors}");
    assert!(errors.contains("continues after"), "{errors}");
    assert!(
        printed.contains("verified: 9000 records, no differences"),
        "{printed}"
    );
    // The end of the file counts, too: a changed file is not verified.
    fs::write(&file, text.replacen("note,8999,1", "note,8999,2", 1)).expect("a file");
    refused(
        "--skip-invalid 1",
        "the file has changed since it was applied",
    );
}
