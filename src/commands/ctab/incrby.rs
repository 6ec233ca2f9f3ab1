//! `CTAB.INCRBY`: one counter.

use super::write::write;
use crate::call::{Call, Outcome};
use crate::commands::cint::options::{Options, Takes};
use crate::commands::cint::write::{Told, with_len};
use crate::keyspace::Keyspace;
use crate::spec::{self, Arg, Command, KeySpec, Spec};
use crate::stats;

/// `CTAB.INCRBY key id idx delta [LEN n] [OVERFLOW SAT|FAIL]`
pub struct IncrBy;

impl Command for IncrBy {
    const SPEC: Spec = Spec {
        name: c"ctab.incrby",
        flags: c"write deny-oom fast",
        categories: c"countint write fast",
        arity: -5,
        keys: &[KeySpec::updates(1, true)],
        summary: c"Adds to one counter of a row and returns its new value",
        complexity: c"O(log N) where N is the number of rows",
        since: c"0.1.0",
        args: &[
            Arg::key(c"key", 0),
            Arg::int(c"id"),
            Arg::int(c"idx"),
            Arg::int(c"delta"),
            spec::LEN,
            spec::OVERFLOW,
        ],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let options = Options::last(call, 5, Takes::LenAndOverflow)?;
        let (id, idx, delta) = (call.unsigned(2)?, call.idx(3)?, call.int(4)?);
        let len = options.len(call)?;
        let told = Told {
            event: Self::SPEC.name,
            len,
            created: with_len(call.len()),
        };
        let step = write(keys.write(1), told, |table| {
            let done = table.incr(id, idx, delta, options.overflow())?;
            Ok((done.created || done.step.new != done.step.old, done.step))
        })?;
        stats::saturated(u64::from(step.saturated));
        call.reply_int(step.new);
        Ok(())
    }
}
