//! `CTAB.EXPORT` and `CTAB.IMPORT`: move rows from one table to another.

use countint_core::counttab::CountTab;

use crate::error::Error;
use crate::server::reply::MAX_BULK;
use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Replicate, Spec};
use crate::types::counttab::TableObject;

/// `CTAB.EXPORT key min max`
pub struct Export;

impl Command for Export {
    const SPEC: Spec = Spec {
        name: c"ctab.export",
        flags: c"readonly",
        categories: c"countint read slow",
        arity: 4,
        keys: &[KeySpec::reads(1, 0)],
        summary:
            c"Returns the rows of a table with ids in a range, and its fences, for CTAB.IMPORT",
        complexity: c"O(log N + K) where N is the number of rows and K the number of rows returned",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0), Arg::int(c"min"), Arg::int(c"max")],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let (min, max) = (call.unsigned(2)?, call.unsigned(3)?);
        let key = keys.read(1);
        let Some(object) = key.table()? else {
            call.reply_null();
            return Ok(());
        };
        let bytes = object.table().export(min, max, MAX_BULK);
        call.reply_bytes(&bytes.ok_or(Error::ReplyTooLong)?);
        Ok(())
    }
}

/// `CTAB.IMPORT key bytes`
pub struct Import;

impl Command for Import {
    const SPEC: Spec = Spec {
        name: c"ctab.import",
        flags: c"write deny-oom",
        categories: c"countint write slow",
        arity: 3,
        keys: &[KeySpec::inserts(1)],
        summary: c"Adds rows from CTAB.EXPORT to a table, all or none, and returns how many",
        complexity:
            c"O(K log N) where K is the number of rows added and N the number of rows of the table",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0), Arg::text(c"bytes")],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let mut key = keys.write(1);
        let existing = key.table_mut()?;
        let incoming = TableObject::build(|| CountTab::from_export(call.arg(2)))?;
        let added = incoming.table().rows();
        match existing {
            Some(object) => {
                call.begin_effects();
                if object.absorb(incoming)? {
                    key.changed(Replicate::Verbatim).publish(Self::SPEC.name);
                }
            }
            None => key
                .store(incoming, Replicate::Verbatim)
                .publish(Self::SPEC.name),
        }
        call.reply_int(added);
        Ok(())
    }
}
