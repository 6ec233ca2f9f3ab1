//! `CINT.BATCHINCR`: several counters of one object in one step.

use super::options::{Options, Takes};
use super::write::{Told, with_len, write};
use crate::call::{Call, Outcome};
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::spec::{self, Arg, Command, KeySpec, Spec};
use crate::{scratch, stats};

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
            spec::LEN,
            spec::OVERFLOW,
            Arg::block(c"increment", &[Arg::int(c"idx"), Arg::int(c"delta")]).multiple(),
        ],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let (options, first) = Options::leading(call, 2, Takes::LenAndOverflow)?;
        let pairs = pairs(call, first)?;
        let len = options.len(call)?;
        let (mut steps, mut values) = (scratch::steps(), scratch::numbers());
        for i in pairs {
            steps.push((call.idx(i)?, call.int(i + 1)?));
        }
        let told = Told {
            event: Self::SPEC.name,
            len,
            created: with_len(2),
        };
        let (_, batch) = write(keys.write(1), told, |fields| {
            let batch = fields.incr_all(&steps, options.overflow(), &mut values)?;
            Ok((batch.changed, batch))
        })?;
        stats::saturated(batch.saturated);
        call.reply_ints(values.iter().copied());
        Ok(())
    }
}

/// The positions of the first arguments of the pairs that begin at `first`; there must be one at least, and each
/// must be whole.
pub fn pairs(call: &Call, first: usize) -> Result<impl Iterator<Item = usize> + use<>, Error> {
    let rest = call.len() - first;
    if rest == 0 || !rest.is_multiple_of(2) {
        Err(Error::Arity)
    } else {
        Ok((first..call.len()).step_by(2))
    }
}
