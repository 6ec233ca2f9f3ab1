//! `CINT.SET` and `CINT.GETSET`: set counters.

use super::write::{Change, write};
use crate::commands::shared::creation::{WriteEffects, as_command_with_len, with_len};
use crate::commands::shared::options::{Accepted, LEN, Options};
use crate::error::Error;
use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Spec};

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
            LEN,
            Arg::block(c"counter", &[Arg::int(c"idx"), Arg::int(c"value")]).multiple(),
        ],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let (options, first) = Options::leading(call, 2, Accepted::Len)?;
        let pairs = call.groups(first, 2)?;
        let len = options.len(call)?;
        let values = pairs
            .map(|i| Ok((call.idx(i)?, call.value(i + 1)?)))
            .collect::<Result<Vec<_>, Error>>()?;
        let effects = WriteEffects {
            event: Self::SPEC.name,
            len,
            replicate_created: with_len(2),
        };
        write(keys.write(1), effects, |fields| {
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
        let (idx, new) = (call.idx(2)?, call.value(3)?);
        let effects = WriteEffects {
            event: Self::SPEC.name,
            len: None,
            replicate_created: as_command_with_len(c"CINT.SET", 2),
        };
        let (change, old) = write(keys.write(1), effects, |fields| {
            let old = fields.set(idx, new)?;
            Ok((old != new, old))
        })?;
        match change {
            Change::Created => call.reply_null(),
            Change::Unchanged | Change::Changed => call.reply_int(old),
        }
        Ok(())
    }
}
