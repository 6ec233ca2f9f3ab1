//! `countd doctor`: its commands repair what it has found, on real servers.

mod databases;
mod replicas;

use crate::support::{Countd, run, set_schema};
use countint_tests::{Server, wait_until};
use serde_json::Value as Json;

const CONFIG: &str =
    "[log]\npartitions = 16\n[consumer]\nlinger_ms = 5\nsession_timeout_ms = 500\n";

/// What `countd doctor --json` has found besides what is well.
fn findings(server: &Server, config: &str) -> Vec<Json> {
    let output = run(server, config, &["doctor", "--json"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    lines
        .filter(|finding: &Json| finding["severity"] != "ok")
        .collect()
}

/// The finding whose text has this part.
#[track_caller]
fn found<'a>(findings: &'a [Json], part: &str) -> &'a Json {
    let mut all = findings.iter();
    let found = all.find(|finding| {
        finding["text"]
            .as_str()
            .is_some_and(|text| text.contains(part))
    });
    found.unwrap_or_else(|| panic!("no {part}: {findings:?}"))
}

/// The commands of a finding.
fn commands(finding: &Json) -> Vec<String> {
    let commands = finding["repair"].as_str().unwrap_or_default().lines();
    commands.map(str::to_owned).collect()
}

/// The part of a command in single quotes.
fn quoted(command: &str) -> String {
    let (_, statement) = command.split_once(" '").expect("a quoted statement");
    let statement = statement.strip_suffix('\'').expect("its end");
    statement.replace(r"'\''", "'")
}

/// Executes `redis-cli -h HOST -p PORT COMMAND` on one of these servers.
#[track_caller]
fn execute(command: &str, servers: &[&Server]) {
    let rest = command
        .strip_prefix("redis-cli -h 127.0.0.1 -p ")
        .expect("a command");
    let (port, command) = rest.split_once(' ').expect("a command");
    let mut servers = servers.iter();
    let server = servers.find(|server| server.port().to_string() == port);
    server.expect("one of the servers").client().ok(command);
}

#[test]
fn a_log_with_foreign_ids_is_renumbered_by_the_consumer_that_the_doctor_names() {
    let server = Server::builder().append_only(true).start();
    set_schema(&server, CONFIG);
    let mut client = server.client();
    client.ok("XADD x:cnt-update:3 5-0 e {}");
    let all = findings(&server, CONFIG);
    let finding = found(&all, "partition 3: its log was emptied, or has foreign IDs");
    assert_eq!(commands(finding), ["countd consume"]);
    let advice = finding["advice"].as_str().expect("an advice");
    assert!(advice.contains("renumbers"), "{advice}");
    let _countd = Countd::start(&server, CONFIG);
    // A consumer that has just begun has other findings.
    let is_damaged = |finding: &Json| {
        finding["text"]
            .as_str()
            .is_some_and(|text| text.starts_with("partition "))
    };
    wait_until("the log is renumbered", || {
        !findings(&server, CONFIG).iter().any(is_damaged)
    });
    // As a comment of a shell, so that all can be pasted.
    client.ok("SET x:cnt-update:5 text");
    let output = run(&server, CONFIG, &["doctor"]);
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        lines.contains("    redis-cli RENAME x:cnt-update:5 x:cnt-update:5:damaged\n"),
        "{lines}"
    );
}
