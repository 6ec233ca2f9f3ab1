//! `CINT.APPLY`: a batch of a log's events, exactly once however often it is sent.
//!
//! One field of the object, the fence, holds the next offset of the log that the object has not seen. A batch that
//! begins at or after the fence is new; one that ends before it is a duplicate; anything else overlaps, and the
//! consumer sends again what lies at or after the fence. See `docs/commands/cint.apply.md` for the consumer's side.

use countint_core::countint::{FIELD_MAX, Fields, MAX_LEN, Overflow};

use super::batchincr::pairs;
use super::options::{Options, Takes};
use super::write::{Told, with_len, write};
use crate::call::{Call, Outcome};
use crate::error::Error;
use crate::key::{Key, KeyMut};
use crate::keyspace::Keyspace;
use crate::spec::{self, Arg, Command, KeySpec, Spec};
use crate::{scratch, stats};

/// The largest offset: the fence after it still fits a field.
const OFFSET_MAX: u64 = FIELD_MAX - 1;

/// `CINT.APPLY key fence from to [LEN n] idx delta [idx delta ...]`
pub struct Apply;

impl Command for Apply {
    const SPEC: Spec = Spec {
        name: c"cint.apply",
        flags: c"write deny-oom",
        categories: c"countint write slow",
        arity: -7,
        keys: &[KeySpec::updates(1, true)],
        summary: c"Adds a batch of a log's events to counters unless they have been added before",
        complexity: c"O(N) where N is the number of increments",
        since: c"0.1.0",
        args: &[
            Arg::key(c"key", 0),
            Arg::int(c"fence"),
            Arg::int(c"from"),
            Arg::int(c"to"),
            spec::LEN,
            Arg::block(c"increment", &[Arg::int(c"idx"), Arg::int(c"delta")]).multiple(),
        ],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let (options, first) = Options::leading(call, 5, Takes::Len)?;
        let pairs = pairs(call, first)?;
        let (fence, from, to) = (call.idx(2)?, offset(call, 3)?, offset(call, 4)?);
        let len = options.len(call)?;
        let mut steps = scratch::steps();
        for i in pairs {
            steps.push((call.idx(i)?, call.int(i + 1)?));
        }
        if from > to {
            return Err(Error::NotAnInteger);
        }
        let batch = Batch {
            fence,
            fence_is_counted: steps.iter().any(|&(idx, _)| idx == fence),
            from,
            to,
            steps: &steps,
        };
        let key = keys.write(1);
        let next = match batch.seen(&key, len)? {
            Some(next) => next,
            None => batch.apply(key, len)?,
        };
        call.reply_int(next);
        Ok(())
    }
}

/// Argument `i` as an offset of a log.
pub fn offset(call: &Call, i: usize) -> Result<u64, Error> {
    call.unsigned(i)
        .ok()
        .filter(|&offset| offset <= OFFSET_MAX)
        .ok_or(Error::NotAnInteger)
}

/// What a consumer sent.
struct Batch<'a> {
    fence: usize,
    /// An error, but one that comes after that of the key's type.
    fence_is_counted: bool,
    from: u64,
    to: u64,
    steps: &'a [(usize, i64)],
}

impl Batch<'_> {
    /// The fence's value if the batch is to change nothing, all of it or a part having been applied before.
    fn seen(&self, key: &Key, len: Option<usize>) -> Result<Option<u64>, Error> {
        let Some(fields) = key.fields()? else {
            return Ok(None);
        };
        let len = fields.len().max(len.unwrap_or(0)).min(MAX_LEN);
        let within = self.fence < len && self.steps.iter().all(|&(idx, _)| idx < len);
        if !within || self.fence_is_counted {
            return Err(Error::IndexOutOfRange);
        }
        let next = fields.get(self.fence).unwrap_or(0); // a field yet to be added is 0
        if next <= self.from {
            return Ok(None);
        }
        stats::not_applied(next > self.to);
        Ok(Some(next))
    }

    /// Applies the batch, saturating, and moves the fence; its value before.
    fn apply(&self, key: KeyMut, len: Option<usize>) -> Result<u64, Error> {
        let mut values = scratch::numbers();
        let apply = |fields: &mut Fields| {
            if self.fence_is_counted {
                return Err(Error::IndexOutOfRange);
            }
            let before = fields.get(self.fence).ok_or(Error::IndexOutOfRange)?;
            let batch = fields.incr_all(self.steps, Overflow::Saturate, &mut values)?;
            fields.set(self.fence, self.to + 1)?;
            Ok((true, (before, batch)))
        };
        let told = Told {
            event: Apply::SPEC.name,
            len,
            created: with_len(5),
        };
        let (_, (before, batch)) = write(key, told, apply)?;
        stats::saturated(batch.saturated);
        Ok(before)
    }
}
