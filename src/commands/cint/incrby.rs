//! `CINT.INCRBY`: one counter.

use super::options::{Options, Takes};
use super::write::{Told, with_len, write};
use crate::call::{Call, Outcome};
use crate::keyspace::Keyspace;
use crate::spec::{self, Arg, Command, KeySpec, Spec};
use crate::stats;

/// `CINT.INCRBY key idx delta [LEN n] [OVERFLOW SAT|FAIL]`
pub struct IncrBy;

impl Command for IncrBy {
    const SPEC: Spec = Spec {
        name: c"cint.incrby",
        flags: c"write deny-oom fast",
        categories: c"countint write fast",
        arity: -4,
        keys: &[KeySpec::updates(1, true)],
        summary: c"Adds to one counter and returns its new value",
        complexity: c"O(1)",
        since: c"0.1.0",
        args: &[
            Arg::key(c"key", 0),
            Arg::int(c"idx"),
            Arg::int(c"delta"),
            spec::LEN,
            spec::OVERFLOW,
        ],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let options = Options::last(call, 4, Takes::LenAndOverflow)?;
        let (idx, delta, len) = (call.idx(2)?, call.int(3)?, options.len(call)?);
        let told = Told {
            event: Self::SPEC.name,
            len,
            created: with_len(call.len()),
        };
        let (_, step) = write(keys.write(1), told, |fields| {
            let step = fields.incr(idx, delta, options.overflow())?;
            Ok((step.new != step.old, step))
        })?;
        stats::saturated(u64::from(step.saturated));
        call.reply_int(step.new);
        Ok(())
    }
}
