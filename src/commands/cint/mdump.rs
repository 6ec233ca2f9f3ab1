//! `CINT.MDUMP`: all counters of several objects.

use crate::error::Error;
use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Spec};

/// `CINT.MDUMP key [key ...]`
pub struct MDump;

impl Command for MDump {
    const SPEC: Spec = Spec {
        name: c"cint.mdump",
        flags: c"readonly",
        categories: c"countint read slow",
        arity: -2,
        keys: &[KeySpec::reads(1, -1)],
        summary: c"Returns all counters of several objects",
        complexity: c"O(N) where N is the number of counters of all objects together",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0).multiple()],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let values = keys.values(1..call.len());
        let objects = (0..values.len())
            .map(|n| values.fields(n))
            .collect::<Result<Vec<_>, Error>>()?;
        call.reply_array(objects.len());
        for object in objects {
            match object {
                Some(fields) => call.reply_ints(fields.iter()),
                None => call.reply_null(),
            }
        }
        Ok(())
    }
}
