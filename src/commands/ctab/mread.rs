//! `CTAB.MREAD`: the counters of several rows as one packed string.

use countint_core::countint::FIELD_BYTES;

use crate::commands::shared::buffers;
use crate::error::Error;
use crate::server::reply::MAX_BULK;
use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Spec};

/// `CTAB.MREAD len key id [id ...]`
pub struct MRead;

impl Command for MRead {
    const SPEC: Spec = Spec {
        name: c"ctab.mread",
        flags: c"readonly",
        categories: c"countint read slow",
        arity: -4,
        keys: &[KeySpec::reads(2, 0)],
        summary: c"Returns the first counters of rows of a table as one string of 5-byte big-endian numbers",
        complexity: c"O(K*(log N + len)) where K is the number of ids and N the number of rows",
        since: c"0.1.0",
        args: &[Arg::int(c"len"), Arg::key(c"key", 0), Arg::int(c"id").multiple()],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let len = call.length(1)?;
        let ids = call.ids(3)?;
        let total = ids.len().saturating_mul(len * FIELD_BYTES);
        let key = keys.read(2);
        let table = key.table()?.map(|object| object.table());
        if total > MAX_BULK {
            return Err(Error::ReplyTooLong);
        }
        let mut page = buffers::bytes();
        page.try_reserve(total).map_err(|_| Error::OutOfMemory)?;
        match table {
            Some(table) => table.read_packed(&ids, len, &mut page),
            None => page.resize(total, 0),
        }
        call.reply_bytes(&page);
        Ok(())
    }
}
