//! `CINT.GET` and `CINT.MGET`: read counters.

use countint_core::countint::MAX_LEN;

use crate::commands::shared::buffers;
use crate::error::Error;
use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Spec};

/// `CINT.GET key idx`
pub struct Get;

impl Command for Get {
    const SPEC: Spec = Spec {
        name: c"cint.get",
        flags: c"readonly fast",
        categories: c"countint read fast",
        arity: 3,
        keys: &[KeySpec::reads(1, 0)],
        summary: c"Returns one counter of an object",
        complexity: c"O(1)",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0), Arg::int(c"idx")],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let idx = call.idx(2)?;
        let key = keys.read(1);
        match key.fields()? {
            Some(fields) => call.reply_int(fields.get(idx).ok_or(Error::IndexOutOfRange)?),
            None if idx >= MAX_LEN => return Err(Error::IndexOutOfRange),
            None => call.reply_null(),
        }
        Ok(())
    }
}

/// `CINT.MGET key idx [idx ...]`
pub struct MGet;

impl Command for MGet {
    const SPEC: Spec = Spec {
        name: c"cint.mget",
        flags: c"readonly",
        categories: c"countint read slow",
        arity: -3,
        keys: &[KeySpec::reads(1, 0)],
        summary: c"Returns several counters of an object",
        complexity: c"O(N) where N is the number of indexes",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0), Arg::int(c"idx").multiple()],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let mut idxs = buffers::numbers();
        for i in 2..call.len() {
            idxs.push(call.idx(i)? as u64);
        }
        let key = keys.read(1);
        let fields = key.fields()?;
        let len = fields.map_or(MAX_LEN, |fields| fields.len());
        if idxs.iter().any(|&idx| idx >= len as u64) {
            return Err(Error::IndexOutOfRange);
        }
        call.reply_array(idxs.len());
        for &idx in idxs.iter() {
            match fields.and_then(|fields| fields.get(idx as usize)) {
                Some(value) => call.reply_int(value),
                None => call.reply_null(),
            }
        }
        Ok(())
    }
}
