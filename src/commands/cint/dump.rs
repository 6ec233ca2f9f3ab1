//! `CINT.LEN` and `CINT.DUMP`: the length and all counters of an object.

use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Spec};

/// `CINT.LEN key`
pub struct Len;

impl Command for Len {
    const SPEC: Spec = Spec {
        name: c"cint.len",
        flags: c"readonly fast",
        categories: c"countint read fast",
        arity: 2,
        keys: &[KeySpec::reads_metadata(1)],
        summary: c"Returns the number of counters of an object",
        complexity: c"O(1)",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0)],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let key = keys.read(1);
        call.reply_int(key.fields()?.map_or(0, |fields| fields.len() as u64));
        Ok(())
    }
}

/// `CINT.DUMP key`
pub struct Dump;

impl Command for Dump {
    const SPEC: Spec = Spec {
        name: c"cint.dump",
        flags: c"readonly",
        categories: c"countint read slow",
        arity: 2,
        keys: &[KeySpec::reads(1, 0)],
        summary: c"Returns all counters of an object",
        complexity: c"O(N) where N is the number of counters",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0)],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let key = keys.read(1);
        match key.fields()? {
            Some(fields) => call.reply_ints(fields.iter()),
            None => call.reply_null(),
        }
        Ok(())
    }
}
