//! `CINT.SET` and `CINT.GETSET`.

use countint_core::countint::FIELD_MAX;

use super::batchincr::pairs;
use super::options::{Options, Takes};
use super::write::{Change, Told, with_len, write};
use crate::call::{Call, Outcome};
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::replicate::Replicate;
use crate::spec::{self, Arg, Command, KeySpec, Spec};

/// `CINT.SET key [LEN n] idx value [idx value ...]`
pub struct Set;

impl Command for Set {
    const SPEC: Spec = Spec {
        name: c"cint.set",
        flags: c"write deny-oom",
        categories: c"countint write slow",
        arity: -4,
        keys: &[KeySpec::updates(1, false)],
        summary: c"Sets counters of an object, all or none",
        complexity: c"O(N) where N is the number of counters set",
        since: c"0.1.0",
        args: &[
            Arg::key(c"key", 0),
            spec::LEN,
            Arg::block(c"counter", &[Arg::int(c"idx"), Arg::int(c"value")]).multiple(),
        ],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let (options, first) = Options::leading(call, 2, Takes::Len)?;
        let pairs = pairs(call, first)?;
        let len = options.len(call)?;
        let values = pairs
            .map(|i| Ok((call.idx(i)?, value(call, i + 1)?)))
            .collect::<Result<Vec<_>, Error>>()?;
        let told = Told {
            event: Self::SPEC.name,
            len,
            created: with_len(2),
        };
        write(keys.write(1), told, |fields| {
            Ok((fields.set_all(&values)?, ()))
        })?;
        call.reply_ok();
        Ok(())
    }
}

/// `CINT.GETSET key idx value`
pub struct GetSet;

impl Command for GetSet {
    const SPEC: Spec = Spec {
        name: c"cint.getset",
        flags: c"write deny-oom fast",
        categories: c"countint write fast",
        arity: 4,
        keys: &[KeySpec::updates(1, true)],
        summary: c"Sets one counter and returns its old value",
        complexity: c"O(1)",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0), Arg::int(c"idx"), Arg::int(c"value")],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let (idx, new) = (call.idx(2)?, value(call, 3)?);
        let told = Told {
            event: Self::SPEC.name,
            len: None,
            created: |len| Replicate::AsSet {
                len,
                idx,
                value: new,
            },
        };
        let (change, old) = write(keys.write(1), told, |fields| {
            let old = fields.set(idx, new)?;
            Ok((old != new, old))
        })?;
        match change {
            Change::Created => call.reply_null(),
            Change::Nothing | Change::Changed => call.reply_int(old),
        }
        Ok(())
    }
}

/// Argument `i` as a counter's value.
pub fn value(call: &Call, i: usize) -> Result<u64, Error> {
    call.unsigned(i)
        .ok()
        .filter(|&value| value <= FIELD_MAX)
        .ok_or(Error::NotAnInteger)
}
