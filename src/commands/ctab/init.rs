//! `CTAB.INIT`: creates a table.

use countint_core::counttab::CountTab;

use crate::error::Error;
use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Replicate, Spec};
use crate::types::counttab::TableObject;

/// `CTAB.INIT key len`
pub struct Init;

impl Command for Init {
    const SPEC: Spec = Spec {
        name: c"ctab.init",
        flags: c"write deny-oom fast",
        categories: c"countint write fast",
        arity: 3,
        keys: &[KeySpec::inserts(1)],
        summary: c"Creates a table without rows",
        complexity: c"O(1)",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0), Arg::int(c"len")],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let len = call.length(2)?;
        let key = keys.write(1);
        if key.table()?.is_some() {
            return Err(Error::KeyExists);
        }
        let object = TableObject::build(|| CountTab::new(len))?;
        key.store(object, Replicate::Verbatim)
            .publish(Self::SPEC.name);
        call.reply_ok();
        Ok(())
    }
}
