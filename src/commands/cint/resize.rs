//! `CINT.RESIZE`: changes the number of counters.

use crate::error::Error;
use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Replicate, Spec};

/// `CINT.RESIZE key len`
pub struct Resize;

impl Command for Resize {
    const SPEC: Spec = Spec {
        name: c"cint.resize",
        flags: c"write deny-oom",
        categories: c"countint write slow",
        arity: 3,
        keys: &[KeySpec::updates(1, false)],
        summary: c"Changes the number of counters of an object, refusing to drop one that is not 0",
        complexity: c"O(N) where N is the number of counters",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0), Arg::int(c"len")],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let len = call.length(2)?;
        let mut key = keys.write(1);
        let fields = key.fields()?.ok_or(Error::NoSuchKey)?;
        if fields.len() != len {
            let counters = fields.resized(len)?;
            key.replace_fields(counters);
            key.changed(Replicate::Verbatim).publish(Self::SPEC.name);
        }
        call.reply_ok();
        Ok(())
    }
}
