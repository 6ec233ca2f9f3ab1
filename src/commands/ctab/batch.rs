//! `CTAB.BATCHINCR` and `CTAB.MINCRBY`: several counters of one row, and of several rows.

use countint_core::counttab::Op;

use super::write::{ops, triples, write};
use crate::call::{Call, Outcome};
use crate::commands::cint::batchincr::pairs;
use crate::commands::cint::options::{Options, Takes};
use crate::commands::cint::write::{Told, with_len};
use crate::error::Error;
use crate::key::KeyMut;
use crate::keyspace::Keyspace;
use crate::replicate::Replicate;
use crate::spec::{self, Arg, Command, KeySpec, Spec};
use crate::{scratch, stats};

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
        complexity: c"O(log N + K log K) where N is the number of rows and K that of increments",
        since: c"0.1.0",
        args: &[
            Arg::key(c"key", 0),
            Arg::int(c"id"),
            spec::LEN,
            spec::OVERFLOW,
            Arg::block(c"increment", &[Arg::int(c"idx"), Arg::int(c"delta")]).multiple(),
        ],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let (options, first) = Options::leading(call, 3, Takes::LenAndOverflow)?;
        let pairs = pairs(call, first)?;
        let id = call.unsigned(2)?;
        let len = options.len(call)?;
        let mut ops = scratch::ops();
        for i in pairs {
            let (idx, delta) = (call.idx(i)?, call.int(i + 1)?);
            ops.push(Op { id, idx, delta });
        }
        let told = Told {
            event: Self::SPEC.name,
            len,
            created: with_len(3),
        };
        add(call, keys.write(1), told, &ops, &options)
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
        complexity: c"O(K*(log N + log K)) where N is the number of rows and K that of increments",
        since: c"0.1.0",
        args: &[
            Arg::key(c"key", 0),
            spec::LEN,
            spec::OVERFLOW,
            Arg::block(
                c"increment",
                &[Arg::int(c"id"), Arg::int(c"idx"), Arg::int(c"delta")],
            )
            .multiple(),
        ],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let (options, first) = Options::leading(call, 2, Takes::LenAndOverflow)?;
        let triples = triples(call, first)?;
        let len = options.len(call)?;
        let ops = ops(call, triples)?;
        let told = Told {
            event: Self::SPEC.name,
            len,
            created: with_len(2),
        };
        add(call, keys.write(1), told, &ops, &options)
    }
}

fn add(
    call: &Call,
    key: KeyMut,
    told: Told<impl FnOnce(usize) -> Replicate>,
    ops: &[Op],
    options: &Options,
) -> Outcome {
    let mut values = scratch::values(ops.len())?;
    let saturated = write(key, told, |table| {
        let changes = table.incr_all(ops, options.overflow(), &mut values)?;
        Ok::<_, Error>((changes.changed, changes.saturated))
    })?;
    stats::saturated(saturated);
    call.reply_ints(values.iter().copied());
    Ok(())
}
