//! The script that changes a fact, its counter and the log. All fact stores except `rbm` use it.

use super::store::{FactChange, counter_call};
use crate::redis::call::RedisCall;
use crate::redis::script::{CounterBackend, ScriptTemplate};

/// The script. It follows a file that defines the functions of the fact store.
pub const FACT_CHANGE: &str = concat!(
    include_str!("../lua/no_split.lua"),
    include_str!("../lua/fact_change.lua")
);
/// The script for the base of a split entity.
pub(super) const SPLIT_FACT_CHANGE: &str = include_str!("../lua/fact_change.lua");

/// The call of a script that ends in [`FACT_CHANGE`], with the keys and arguments of the fact.
pub fn change_call(
    script: (&'static ScriptTemplate, CounterBackend),
    change: &FactChange<'_>,
    mut keys: Vec<String>,
    arguments: &[&str],
) -> RedisCall {
    let (log, event) = change.event;
    keys.push(log.to_owned());
    keys.extend(change.counter.map(|counter| counter.at.key().to_owned()));
    keys.extend(change.guard.map(|guard| guard.key.clone()));
    keys.extend(
        change
            .author
            .iter()
            .flat_map(|author| author.keys().iter().cloned()),
    );
    let row = arguments.len() + 2;
    counter_call(script, &keys, (change.counter, row, change.day), |cmd| {
        cmd.arg(arguments).arg(change.op.name()).arg(event);
        match change.counter {
            Some(counter) => cmd.arg(&counter.script_args()),
            None => cmd.arg(&["", "", "", ""]),
        };
        match change.guard {
            Some(guard) => cmd.arg(guard.argument()),
            None => cmd.arg(""),
        };
        let verify = change.counter.is_some_and(|counter| counter.verify);
        cmd.arg(u8::from(verify));
        if let Some(author) = change.author {
            author.add_arguments(cmd);
        }
    })
}
