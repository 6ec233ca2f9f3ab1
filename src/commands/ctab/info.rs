//! `CTAB.INFO`: returns the sizes and fences of a table.

use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Spec};

/// `CTAB.INFO key`
pub struct Info;

impl Command for Info {
    const SPEC: Spec = Spec {
        name: c"ctab.info",
        flags: c"readonly",
        categories: c"countint read slow",
        arity: 2,
        keys: &[KeySpec::reads(1, 0)],
        summary: c"Returns the sizes and the fences of a table",
        complexity: c"O(F + N/8192) where F is the number of fences and N the number of rows",
        since: c"0.1.0",
        args: &[Arg::key(c"key", 0)],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let key = keys.read(1);
        let Some(object) = key.table()? else {
            call.reply_null();
            return Ok(());
        };
        let table = object.table();
        call.reply_map(5);
        for (name, value) in [
            ("len", table.len() as u64),
            ("rows", table.rows()),
            ("pages", table.pages() as u64),
            ("bytes", object.bytes() as u64),
        ] {
            call.reply_bytes(name.as_bytes());
            call.reply_int(value);
        }
        call.reply_bytes(b"fences");
        call.reply_map(table.fences().len());
        for (source, next) in table.fences() {
            call.reply_int(u64::from(source));
            call.reply_int(next);
        }
        Ok(())
    }
}
