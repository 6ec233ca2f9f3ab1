//! Checks the settings of the servers on which durability depends.

use super::report::{Finding, Report};
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
        let info = Info::parse(&reply);
        let set = |setting: &str, value: &str| {
            let client = match name.rsplit_once(':') {
                Some((host, port)) => format!("redis-cli -h {host} -p {port}"),
                None => "redis-cli".to_owned(),
            };
            format!("{client} CONFIG SET {setting} {value}")
        };
        let policy = info.text("maxmemory_policy").unwrap_or(NO_EVICTION);
        if policy != NO_EVICTION {
            let problem = format!(
                "server {name}: maxmemory-policy is {policy}: when its memory is full it deletes keys, and counts are lost"
            );
            report.add(
                &Finding::problem(problem.as_str())
                    .repaired_by(set("maxmemory-policy", NO_EVICTION)),
            )?;
            report.fail(problem);
        }
        if info.text("aof_enabled") == Some("0") {
            let note = format!(
                "server {name}: appendonly is no: what was counted since the last snapshot is lost when the server ends unexpectedly"
            );
            report.add(&Finding::note(note).repaired_by(set("appendonly", "yes")))?;
        }
    }
    Ok(())
}
