//! `CINT.INCRBY`: increments one counter.

use super::write::write;
use crate::commands::shared::creation::{WriteEffects, with_len};
use crate::commands::shared::options::{Accepted, LEN, OVERFLOW, Options};
use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Spec};
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
            LEN,
            OVERFLOW,
        ],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let options = Options::trailing(call, 4, Accepted::LenAndOverflow)?;
        let (idx, delta, len) = (call.idx(2)?, call.int(3)?, options.len(call)?);
        let effects = WriteEffects {
            event: Self::SPEC.name,
            len,
            replicate_created: with_len(call.len()),
        };
        let (_, step) = write(keys.write(1), effects, |fields| {
            let step = fields.incr(idx, delta, options.overflow())?;
            Ok((step.new != step.old, step))
        })?;
        stats::saturated(u64::from(step.saturated));
        call.reply_int(step.new);
        Ok(())
    }
}
