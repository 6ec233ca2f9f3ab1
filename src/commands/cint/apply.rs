//! `CINT.APPLY`: applies a batch of a log's events exactly once, however often it is sent.
//!
//! One field of the object, the fence, holds the next offset of the log. A batch that begins at or after the fence is
//! new; one that ends before it is a duplicate; any other overlaps, and the consumer sends the events at or after the
//! fence again. See `docs/commands/cint.apply.md`.

use countint_core::countint::{Fields, MAX_LEN, Overflow};

use super::write::write;
use crate::commands::shared::buffers;
use crate::commands::shared::creation::{WriteEffects, with_len};
use crate::commands::shared::options::{Accepted, LEN, Options};
use crate::error::Error;
use crate::server::{Arg, Call, Command, Key, KeyMut, KeySpec, Keyspace, Outcome, Spec};
use crate::stats;

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
            LEN,
            Arg::block(c"increment", &[Arg::int(c"idx"), Arg::int(c"delta")]).multiple(),
        ],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let (options, first) = Options::leading(call, 5, Accepted::Len)?;
        let pairs = call.groups(first, 2)?;
        let (fence, from, to) = (call.idx(2)?, call.offset(3)?, call.offset(4)?);
        let len = options.len(call)?;
        let mut increments = buffers::increments();
        for i in pairs {
            increments.push((call.idx(i)?, call.int(i + 1)?));
        }
        if from > to {
            return Err(Error::NotAnInteger);
        }
        let batch = Batch {
            fence,
            fence_is_counted: increments.iter().any(|&(idx, _)| idx == fence),
            from,
            to,
            increments: &increments,
        };
        let key = keys.write(1);
        let next = match batch.applied_before(&key, len)? {
            Some(next) => next,
            None => batch.apply(key, len)?,
        };
        call.reply_int(next);
        Ok(())
    }
}

/// The batch of a consumer.
struct Batch<'a> {
    fence: usize,
    /// Whether an increment names the fence. That is an error, reported after a wrong type.
    fence_is_counted: bool,
    from: u64,
    to: u64,
    increments: &'a [(usize, i64)],
}

impl Batch<'_> {
    /// The fence's value if the batch was applied before, completely or in part, so that it changes nothing.
    fn applied_before(&self, key: &Key, len: Option<usize>) -> Result<Option<u64>, Error> {
        let Some(fields) = key.fields()? else {
            return Ok(None);
        };
        let len = fields.len().max(len.unwrap_or(0)).min(MAX_LEN);
        let within = self.fence < len && self.increments.iter().all(|&(idx, _)| idx < len);
        if !within || self.fence_is_counted {
            return Err(Error::IndexOutOfRange);
        }
        let next = fields.get(self.fence).unwrap_or(0); // 0 for a field that `LEN` adds
        if next <= self.from {
            return Ok(None);
        }
        stats::not_applied(next > self.to);
        Ok(Some(next))
    }

    /// Applies the batch, saturating, and moves the fence. Returns the fence's value before.
    fn apply(&self, key: KeyMut, len: Option<usize>) -> Result<u64, Error> {
        let mut values = buffers::numbers();
        let apply = |fields: &mut Fields| {
            if self.fence_is_counted {
                return Err(Error::IndexOutOfRange);
            }
            let before = fields.get(self.fence).ok_or(Error::IndexOutOfRange)?;
            let batch = fields.incr_all(self.increments, Overflow::Saturate, &mut values)?;
            fields.set(self.fence, self.to + 1)?;
            Ok((true, (before, batch)))
        };
        let effects = WriteEffects {
            event: Apply::SPEC.name,
            len,
            replicate_created: with_len(5),
        };
        let (_, (before, batch)) = write(key, effects, apply)?;
        stats::saturated(batch.saturated);
        Ok(before)
    }
}
