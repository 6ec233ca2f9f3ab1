//! `CTAB.MAPPLY`: a batch of a log's events, exactly once for the whole table.
//!
//! As `CINT.APPLY`, but the fence is not a counter: the table keeps one for each slot, that is, for each partition of
//! the log that feeds it, beside the rows.

use countint_core::countint::{MAX_LEN, Overflow};
use countint_core::counttab::{CountTab, MAX_SOURCE, Op};

use super::write::{ops, triples, write};
use crate::call::{Call, Outcome};
use crate::commands::cint::apply::offset;
use crate::commands::cint::options::{Options, Takes};
use crate::commands::cint::write::{Told, with_len};
use crate::error::Error;
use crate::key::{Key, KeyMut};
use crate::keyspace::Keyspace;
use crate::spec::{self, Arg, Command, KeySpec, Spec};
use crate::{scratch, stats};

/// `CTAB.MAPPLY key slot from to [LEN n] id idx delta [id idx delta ...]`
pub struct MApply;

impl Command for MApply {
    const SPEC: Spec = Spec {
        name: c"ctab.mapply",
        flags: c"write deny-oom",
        categories: c"countint write slow",
        arity: -8,
        keys: &[KeySpec::updates(1, true)],
        summary:
            c"Adds a batch of a log's events to counters of rows unless they have been added before",
        complexity: c"O(K*(log N + log K)) where N is the number of rows and K that of increments",
        since: c"0.1.0",
        args: &[
            Arg::key(c"key", 0),
            Arg::int(c"slot"),
            Arg::int(c"from"),
            Arg::int(c"to"),
            spec::LEN,
            Arg::block(
                c"increment",
                &[Arg::int(c"id"), Arg::int(c"idx"), Arg::int(c"delta")],
            )
            .multiple(),
        ],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let (options, first) = Options::leading(call, 5, Takes::Len)?;
        let triples = triples(call, first)?;
        let (slot, from, to) = (call.idx(2)?, offset(call, 3)?, offset(call, 4)?);
        let len = options.len(call)?;
        let ops = ops(call, triples)?;
        if from > to {
            return Err(Error::NotAnInteger);
        }
        let batch = Batch {
            slot,
            from,
            to,
            ops: &ops,
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

/// What a consumer sent.
struct Batch<'a> {
    slot: usize,
    from: u64,
    to: u64,
    ops: &'a [Op],
}

impl Batch<'_> {
    /// The fence's value if the batch is to change nothing, all of it or a part having been applied before.
    fn seen(&self, key: &Key, len: Option<usize>) -> Result<Option<u64>, Error> {
        let object = key.table()?;
        let slot = self.slot()?;
        let Some(table) = object.map(|object| object.table()) else {
            return Ok(None);
        };
        let len = table.len().max(len.unwrap_or(0)).min(MAX_LEN);
        if self.ops.iter().any(|op| op.idx >= len) {
            return Err(Error::IndexOutOfRange);
        }
        let next = table.fence(slot);
        if next <= self.from {
            return Ok(None);
        }
        stats::not_applied(next > self.to);
        Ok(Some(next))
    }

    fn slot(&self) -> Result<u16, Error> {
        match u16::try_from(self.slot) {
            Ok(slot) if self.slot <= MAX_SOURCE => Ok(slot),
            _ => Err(Error::IndexOutOfRange),
        }
    }

    /// Applies the batch, saturating, and moves the fence; its value before.
    fn apply(&self, key: KeyMut, len: Option<usize>) -> Result<u64, Error> {
        let slot = self.slot()?;
        let mut values = scratch::values(self.ops.len())?;
        let apply = |table: &mut CountTab| {
            let before = table.fence(slot);
            let changes = table.incr_all(self.ops, Overflow::Saturate, &mut values)?;
            table.set_fence(slot, self.to + 1);
            Ok((true, (before, changes)))
        };
        let told = Told {
            event: MApply::SPEC.name,
            len,
            created: with_len(5),
        };
        let (before, changes) = write(key, told, apply)?;
        stats::saturated(changes.saturated);
        Ok(before)
    }
}
