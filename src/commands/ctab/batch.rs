//! `CTAB.BATCHINCR` and `CTAB.MINCRBY`: increment several counters, of one row or of several.

use countint_core::counttab::RowIncrement;

use super::write::{row_increments, write};
use crate::commands::shared::buffers;
use crate::commands::shared::creation::{WriteEffects, with_len};
use crate::commands::shared::options::{Accepted, LEN, OVERFLOW, Options};
use crate::error::Error;
use crate::server::{Arg, Call, Command, KeyMut, KeySpec, Keyspace, Outcome, Replicate, Spec};
use crate::stats;

/// `CTAB.BATCHINCR key id [LEN n] [OVERFLOW SAT|FAIL] idx delta [idx delta ...]`
pub struct BatchIncr;

impl Command for BatchIncr {
    const SPEC: Spec = Spec {
        name: c"ctab.batchincr",
        flags: c"write deny-oom",
        categories: c"countint write slow",
        arity: -5,
        keys: &[KeySpec::updates(1, true)],
        summary: c"Adds to several counters of a row, all or none, and returns their new values",
        complexity:
            c"O(log N + K log K) where N is the number of rows and K the number of increments",
        since: c"0.1.0",
        args: &[
            Arg::key(c"key", 0),
            Arg::int(c"id"),
            LEN,
            OVERFLOW,
            Arg::block(c"increment", &[Arg::int(c"idx"), Arg::int(c"delta")]).multiple(),
        ],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let (options, first) = Options::leading(call, 3, Accepted::LenAndOverflow)?;
        let pairs = call.groups(first, 2)?;
        let id = call.unsigned(2)?;
        let len = options.len(call)?;
        let mut increments = buffers::row_increments();
        for i in pairs {
            let (idx, delta) = (call.idx(i)?, call.int(i + 1)?);
            increments.push(RowIncrement { id, idx, delta });
        }
        let effects = WriteEffects {
            event: Self::SPEC.name,
            len,
            replicate_created: with_len(3),
        };
        add(call, keys.write(1), effects, &increments, &options)
    }
}

/// `CTAB.MINCRBY key [LEN n] [OVERFLOW SAT|FAIL] id idx delta [id idx delta ...]`
pub struct MIncrBy;

impl Command for MIncrBy {
    const SPEC: Spec = Spec {
        name: c"ctab.mincrby",
        flags: c"write deny-oom",
        categories: c"countint write slow",
        arity: -5,
        keys: &[KeySpec::updates(1, true)],
        summary: c"Adds to counters of several rows, all or none, and returns their new values",
        complexity:
            c"O(K*(log N + log K)) where N is the number of rows and K the number of increments",
        since: c"0.1.0",
        args: &[
            Arg::key(c"key", 0),
            LEN,
            OVERFLOW,
            Arg::block(
                c"increment",
                &[Arg::int(c"id"), Arg::int(c"idx"), Arg::int(c"delta")],
            )
            .multiple(),
        ],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let (options, first) = Options::leading(call, 2, Accepted::LenAndOverflow)?;
        let triples = call.groups(first, 3)?;
        let len = options.len(call)?;
        let increments = row_increments(call, triples)?;
        let effects = WriteEffects {
            event: Self::SPEC.name,
            len,
            replicate_created: with_len(2),
        };
        add(call, keys.write(1), effects, &increments, &options)
    }
}

fn add(
    call: &Call,
    key: KeyMut,
    effects: WriteEffects<impl FnOnce(usize) -> Replicate<'static>>,
    increments: &[RowIncrement],
    options: &Options,
) -> Outcome {
    let mut values = buffers::values(increments.len())?;
    let saturated = write(key, effects, |table| {
        let changes = table.incr_all(increments, options.overflow(), &mut values)?;
        Ok::<_, Error>((changes.changed, changes.saturated))
    })?;
    stats::saturated(saturated);
    call.reply_ints(values.iter().copied());
    Ok(())
}
