//! Checks the settings of the servers on which durability depends.

use super::report::{Finding, Remedy, Report};
use crate::cli::error::CommandError;
use countd::monitor::{Info, replies};
use countd::redis::store::Store;
use std::io::Write;

/// The only `maxmemory-policy` that evicts no keys.
const NO_EVICTION: &str = "noeviction";

/// Checks that no server evicts keys, and notes servers without an append-only file.
pub(super) async fn check(
    store: &Store,
    report: &mut Report<impl Write>,
) -> Result<(), CommandError> {
    for (name, reply) in replies(store).await? {
        let Ok(reply) = reply else {
            // Other checks name it.
            continue;
        };
        for finding in of_server(&name, &Info::parse(&reply)) {
            report.add_and_fail(&finding)?;
        }
    }
    Ok(())
}

/// What is wrong with the settings of a server.
pub(super) fn of_server(name: &str, info: &Info<'_>) -> Vec<Finding> {
    let set = |setting: &str, value: &str| {
        let command = format!("{} CONFIG SET {setting} {value}", client(name));
        let advice = format!(
            "add `{setting} {value}` to redis.conf, too: CONFIG SET lasts until the server ends"
        );
        Remedy::command(command).knowing(advice)
    };
    let mut findings = Vec::new();
    let policy = info.text("maxmemory_policy").unwrap_or(NO_EVICTION);
    if policy != NO_EVICTION {
        let problem = format!(
            "server {name}: maxmemory-policy is {policy}: when its memory is full it deletes keys, and counts are lost"
        );
        findings.push(Finding::problem(
            problem,
            set("maxmemory-policy", NO_EVICTION),
        ));
    }
    if info.text("aof_enabled") == Some("0") {
        let note = format!(
            "server {name}: appendonly is no: what was counted since the last snapshot is lost when the server ends unexpectedly"
        );
        findings.push(Finding::note(note, set("appendonly", "yes")));
    }
    findings
}

/// The command that connects to a server with this name, such as `127.0.0.1:6379`.
pub(super) fn client(name: &str) -> String {
    match name.rsplit_once(':') {
        Some((host, port)) => format!("redis-cli -h {host} -p {port}"),
        None => "redis-cli".to_owned(),
    }
}
