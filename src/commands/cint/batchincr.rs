//! `CINT.BATCHINCR`: increments several counters of one object.

use super::write::write;
use crate::commands::shared::buffers;
use crate::commands::shared::creation::{WriteEffects, with_len};
use crate::commands::shared::options::{Accepted, LEN, OVERFLOW, Options};
use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Spec};
use crate::stats;

/// `CINT.BATCHINCR key [LEN n] [OVERFLOW SAT|FAIL] idx delta [idx delta ...]`
pub struct BatchIncr;

impl Command for BatchIncr {
    const SPEC: Spec = Spec {
        name: c"cint.batchincr",
        flags: c"write deny-oom",
        categories: c"countint write slow",
        arity: -4,
        keys: &[KeySpec::updates(1, true)],
        summary:
            c"Adds to several counters of an object, all or none, and returns their new values",
        complexity: c"O(N) where N is the number of increments",
        since: c"0.1.0",
        args: &[
            Arg::key(c"key", 0),
            LEN,
            OVERFLOW,
            Arg::block(c"increment", &[Arg::int(c"idx"), Arg::int(c"delta")]).multiple(),
        ],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let (options, first) = Options::leading(call, 2, Accepted::LenAndOverflow)?;
        let pairs = call.groups(first, 2)?;
        let len = options.len(call)?;
        let (mut increments, mut values) = (buffers::increments(), buffers::numbers());
        for i in pairs {
            increments.push((call.idx(i)?, call.int(i + 1)?));
        }
        let effects = WriteEffects {
            event: Self::SPEC.name,
            len,
            replicate_created: with_len(2),
        };
        let (_, batch) = write(keys.write(1), effects, |fields| {
            let batch = fields.incr_all(&increments, options.overflow(), &mut values)?;
            Ok((batch.changed, batch))
        })?;
        stats::saturated(batch.saturated);
        call.reply_ints(values.iter().copied());
        Ok(())
    }
}
