//! `CTAB.SET` and `CTAB.GETSET`: set counters of a row.

use super::write::write;
use crate::commands::shared::creation::{WriteEffects, as_command_with_len, with_len};
use crate::commands::shared::options::{Accepted, LEN, Options};
use crate::error::Error;
use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Spec};

/// `CTAB.SET key id [LEN n] idx value [idx value ...]`
pub struct Set;

impl Command for Set {
    const SPEC: Spec = Spec {
        name: c"ctab.set",
        flags: c"write deny-oom",
        categories: c"countint write slow",
        arity: -5,
        keys: &[KeySpec::updates(1, false)],
        summary: c"Sets counters of a row, all or none",
        complexity:
            c"O(log N + K log K) where N is the number of rows and K the number of counters set",
        since: c"0.1.0",
        args: &[
            Arg::key(c"key", 0),
            Arg::int(c"id"),
            LEN,
            Arg::block(c"counter", &[Arg::int(c"idx"), Arg::int(c"value")]).multiple(),
        ],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let (options, first) = Options::leading(call, 3, Accepted::Len)?;
        let pairs = call.groups(first, 2)?;
        let id = call.unsigned(2)?;
        let len = options.len(call)?;
        let values = pairs
            .map(|i| Ok((call.idx(i)?, call.value(i + 1)?)))
            .collect::<Result<Vec<_>, Error>>()?;
        let effects = WriteEffects {
            event: Self::SPEC.name,
            len,
            replicate_created: with_len(3),
        };
        write(keys.write(1), effects, |table| {
            Ok((table.set(id, &values)?, ()))
        })?;
        call.reply_ok();
        Ok(())
    }
}

/// `CTAB.GETSET key id idx value`
pub struct GetSet;

impl Command for GetSet {
    const SPEC: Spec = Spec {
        name: c"ctab.getset",
        flags: c"write deny-oom fast",
        categories: c"countint write fast",
        arity: 5,
        keys: &[KeySpec::updates(1, true)],
        summary: c"Sets one counter of a row and returns its old value",
        complexity: c"O(log N) where N is the number of rows",
        since: c"0.1.0",
        args: &[
            Arg::key(c"key", 0),
            Arg::int(c"id"),
            Arg::int(c"idx"),
            Arg::int(c"value"),
        ],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let (id, idx, new) = (call.unsigned(2)?, call.idx(3)?, call.value(4)?);
        let effects = WriteEffects {
            event: Self::SPEC.name,
            len: None,
            replicate_created: as_command_with_len(c"CTAB.SET", 3),
        };
        let old = write(keys.write(1), effects, |table| {
            let old = table.get(id, idx)?;
            Ok((table.set(id, &[(idx, new)])?, old))
        })?;
        match old {
            Some(old) => call.reply_int(old),
            None => call.reply_null(),
        }
        Ok(())
    }
}
