//! `CTAB.DEL`: removes rows.

use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Replicate, Spec};

/// `CTAB.DEL key id [id ...]`
pub struct Del;

impl Command for Del {
    const SPEC: Spec = Spec {
        name: c"ctab.del",
        flags: c"write",
        categories: c"countint write slow",
        arity: -3,
        keys: &[KeySpec::deletes(1)],
        summary: c"Removes rows from a table and returns how many were removed",
        complexity: c"O(K log N) where K is the number of ids and N the number of rows",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0), Arg::int(c"id").multiple()],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let ids = call.ids(2)?;
        let mut key = keys.write(1);
        let mut removed = 0;
        if let Some(object) = key.table_mut()? {
            call.begin_effects();
            removed = object.change(|table| ids.iter().filter(|&&id| table.remove(id)).count());
        }
        if removed > 0 {
            key.changed(Replicate::Verbatim).publish(Self::SPEC.name);
        }
        call.reply_int(removed as u64);
        Ok(())
    }
}
