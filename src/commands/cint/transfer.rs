//! `CINT.EXPORT` and `CINT.IMPORT`: the raw fields of an object.

use countint_core::countint::CountInt;

use super::init::create;
use crate::error::Error;
use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Spec};

/// `CINT.EXPORT key`
pub struct Export;

impl Command for Export {
    const SPEC: Spec = Spec {
        name: c"cint.export",
        flags: c"readonly",
        categories: c"countint read slow",
        arity: 2,
        keys: &[KeySpec::reads(1, 0)],
        summary: c"Returns all counters of an object as one string of 5-byte big-endian numbers",
        complexity: c"O(N) where N is the number of counters",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0)],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let key = keys.read(1);
        match key.fields()? {
            Some(fields) => call.reply_bytes(fields.as_bytes()),
            None => call.reply_null(),
        }
        Ok(())
    }
}

/// `CINT.IMPORT key bytes`
pub struct Import;

impl Command for Import {
    const SPEC: Spec = Spec {
        name: c"cint.import",
        flags: c"write deny-oom",
        categories: c"countint write slow",
        arity: 3,
        keys: &[KeySpec::inserts(1)],
        summary: c"Creates an object from a string of 5-byte big-endian numbers",
        complexity: c"O(N) where N is the number of counters",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0), Arg::text(c"bytes")],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        create(call, keys, Self::SPEC.name, || {
            CountInt::from_bytes(call.arg(2)).map_err(Error::from)
        })
    }
}
