//! The script that records a fact, counts it and writes its event, for all ways but the module's.

use super::FactChange;
use crate::redis::call::RedisCall;
use crate::redis::script::LoadedScript;

/// The script itself, behind the file that says where the fact is.
pub const MARK: &str = include_str!("../lua/mark.lua");

/// Calls it with what the fact needs.
pub fn mark(
    code: &'static LoadedScript,
    change: &FactChange<'_>,
    mut keys: Vec<String>,
    arguments: &[&str],
) -> RedisCall {
    let (log, event) = change.event;
    keys.push(log.to_owned());
    keys.extend(change.counter.map(|counter| counter.key.clone()));
    keys.extend(change.guard.map(|guard| guard.key.clone()));
    let mut call = RedisCall::script(code, &keys);
    call.cmd.arg(arguments).arg(change.op.name()).arg(event);
    match change.counter {
        Some(counter) => call
            .cmd
            .arg(counter.idx)
            .arg(counter.len)
            .arg(counter.least),
        None => call.cmd.arg(&["", "", ""]),
    };
    match change.guard {
        Some(guard) => call.cmd.arg(guard.seconds),
        None => call.cmd.arg(""),
    };
    call
}
