//! The script that records a fact, counts it and writes its event, for all ways but the module's.

use super::Change;
use crate::redis::call::Call;
use crate::redis::script::Code;

/// The script itself, behind the file that says where the fact is.
pub const MARK: &str = include_str!("../lua/mark.lua");

/// Calls it with what the fact needs.
pub fn mark(
    code: &'static Code,
    change: &Change<'_>,
    mut keys: Vec<String>,
    arguments: &[&str],
) -> Call {
    let (log, event) = change.event;
    keys.push(log.to_owned());
    keys.extend(change.counter.map(|counter| counter.key.clone()));
    keys.extend(change.guard.map(|guard| guard.key.clone()));
    let mut call = Call::script(code, &keys);
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
