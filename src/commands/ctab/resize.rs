//! `CTAB.RESIZE`: changes the number of counters of every row.

use crate::error::Error;
use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Replicate, Spec};

/// `CTAB.RESIZE key len`
pub struct Resize;

impl Command for Resize {
    const SPEC: Spec = Spec {
        name: c"ctab.resize",
        flags: c"write deny-oom",
        categories: c"countint write slow",
        arity: 3,
        keys: &[KeySpec::updates(1, false)],
        summary:
            c"Changes the number of counters of every row of a table, refusing to drop one that is not 0",
        complexity: c"O(1) for more counters, O(N) for fewer where N is the number of rows",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0), Arg::int(c"len")],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let len = call.length(2)?;
        let mut key = keys.write(1);
        let object = key.table_mut()?.ok_or(Error::NoSuchKey)?;
        call.begin_effects();
        if object.change(|table| table.resize(len))? {
            key.changed(Replicate::Verbatim).publish(Self::SPEC.name);
        }
        call.reply_ok();
        Ok(())
    }
}
