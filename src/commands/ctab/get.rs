//! `CTAB.GET` and `CTAB.MGET`: read one counter, and whole rows.

use countint_core::countint::MAX_LEN;

use crate::error::Error;
use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Spec};

/// `CTAB.GET key id idx`
pub struct Get;

impl Command for Get {
    const SPEC: Spec = Spec {
        name: c"ctab.get",
        flags: c"readonly fast",
        categories: c"countint read fast",
        arity: 4,
        keys: &[KeySpec::reads(1, 0)],
        summary: c"Returns one counter of a row of a table",
        complexity: c"O(log N) where N is the number of rows",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0), Arg::int(c"id"), Arg::int(c"idx")],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let (id, idx) = (call.unsigned(2)?, call.idx(3)?);
        let key = keys.read(1);
        let value = match key.table()? {
            Some(object) => object.table().get(id, idx)?,
            None if idx >= MAX_LEN => return Err(Error::IndexOutOfRange),
            None => None,
        };
        match value {
            Some(value) => call.reply_int(value),
            None => call.reply_null(),
        }
        Ok(())
    }
}

/// `CTAB.MGET key id [id ...]`
pub struct MGet;

impl Command for MGet {
    const SPEC: Spec = Spec {
        name: c"ctab.mget",
        flags: c"readonly",
        categories: c"countint read slow",
        arity: -3,
        keys: &[KeySpec::reads(1, 0)],
        summary: c"Returns rows of a table",
        complexity: c"O(K*(log N + len)) where K is the number of ids and N the number of rows",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0), Arg::int(c"id").multiple()],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let ids = call.ids(2)?;
        let key = keys.read(1);
        let table = key.table()?.map(|object| object.table());
        call.reply_array(ids.len());
        for &id in ids.iter() {
            match table.filter(|table| table.contains(id)) {
                Some(table) => {
                    call.reply_array(table.len());
                    table.read(id, |value| call.reply_int(value));
                }
                None => call.reply_null(),
            }
        }
        Ok(())
    }
}
