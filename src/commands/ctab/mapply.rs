//! `CTAB.MAPPLY`: applies a batch of a log's events to a table exactly once, however often it is sent.
//!
//! Like `CINT.APPLY`, but the fence is not a counter. The table keeps one fence for each source, that is, for each
//! partition of the log that feeds it.

use countint_core::countint::{MAX_LEN, Overflow};
use countint_core::counttab::{CountTab, MAX_SOURCE, RowIncrement};

use super::write::{row_increments, write};
use crate::commands::shared::buffers;
use crate::commands::shared::creation::{WriteEffects, with_len};
use crate::commands::shared::options::{Accepted, LEN, Options};
use crate::error::Error;
use crate::server::{Arg, Call, Command, Key, KeyMut, KeySpec, Keyspace, Outcome, Spec};
use crate::stats;

/// `CTAB.MAPPLY key source from to [LEN n] id idx delta [id idx delta ...]`
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
        complexity:
            c"O(K*(log N + log K)) where N is the number of rows and K the number of increments",
        since: c"0.1.0",
        args: &[
            Arg::key(c"key", 0),
            Arg::int(c"source"),
            Arg::int(c"from"),
            Arg::int(c"to"),
            LEN,
            Arg::block(
                c"increment",
                &[Arg::int(c"id"), Arg::int(c"idx"), Arg::int(c"delta")],
            )
            .multiple(),
        ],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let (options, first) = Options::leading(call, 5, Accepted::Len)?;
        let triples = call.groups(first, 3)?;
        let (source, from, to) = (call.idx(2)?, call.offset(3)?, call.offset(4)?);
        let len = options.len(call)?;
        let increments = row_increments(call, triples)?;
        if from > to {
            return Err(Error::NotAnInteger);
        }
        let batch = Batch {
            source,
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
    source: usize,
    from: u64,
    to: u64,
    increments: &'a [RowIncrement],
}

impl Batch<'_> {
    /// The fence's value if the batch was applied before, completely or in part, so that it changes nothing.
    fn applied_before(&self, key: &Key, len: Option<usize>) -> Result<Option<u64>, Error> {
        let object = key.table()?;
        let source = self.source()?;
        let Some(table) = object.map(|object| object.table()) else {
            return Ok(None);
        };
        let len = table.len().max(len.unwrap_or(0)).min(MAX_LEN);
        if self.increments.iter().any(|op| op.idx >= len) {
            return Err(Error::IndexOutOfRange);
        }
        let next = table.fence(source);
        if next <= self.from {
            return Ok(None);
        }
        stats::not_applied(next > self.to);
        Ok(Some(next))
    }

    fn source(&self) -> Result<u16, Error> {
        match u16::try_from(self.source) {
            Ok(source) if self.source <= MAX_SOURCE => Ok(source),
            _ => Err(Error::IndexOutOfRange),
        }
    }

    /// Applies the batch, saturating, and moves the fence. Returns the fence's value before.
    fn apply(&self, key: KeyMut, len: Option<usize>) -> Result<u64, Error> {
        let source = self.source()?;
        let mut values = buffers::values(self.increments.len())?;
        let apply = |table: &mut CountTab| {
            let before = table.fence(source);
            let changes = table.incr_all(self.increments, Overflow::Saturate, &mut values)?;
            table.set_fence(source, self.to + 1);
            Ok((true, (before, changes)))
        };
        let effects = WriteEffects {
            event: MApply::SPEC.name,
            len,
            replicate_created: with_len(5),
        };
        let (before, changes) = write(key, effects, apply)?;
        stats::saturated(changes.saturated);
        Ok(before)
    }
}
