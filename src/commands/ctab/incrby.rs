//! `CTAB.INCRBY`: increments one counter of a row.

use super::write::write;
use crate::commands::shared::creation::{WriteEffects, with_len};
use crate::commands::shared::options::{Accepted, LEN, OVERFLOW, Options};
use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Spec};
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
            LEN,
            OVERFLOW,
        ],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let options = Options::trailing(call, 5, Accepted::LenAndOverflow)?;
        let (id, idx, delta) = (call.unsigned(2)?, call.idx(3)?, call.int(4)?);
        let len = options.len(call)?;
        let effects = WriteEffects {
            event: Self::SPEC.name,
            len,
            replicate_created: with_len(call.len()),
        };
        let counter = write(keys.write(1), effects, |table| {
            let result = table.incr(id, idx, delta, options.overflow())?;
            let counter = result.counter;
            Ok((result.created || counter.new != counter.old, counter))
        })?;
        stats::saturated(u64::from(counter.saturated));
        call.reply_int(counter.new);
        Ok(())
    }
}
