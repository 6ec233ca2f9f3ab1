//! `CTAB.SCAN`: returns the ids of a table in pages.

use crate::commands::shared::buffers;
use crate::commands::shared::pages;
use crate::error::Error;
use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Spec};

/// `CTAB.SCAN key cursor [COUNT n]`
pub struct Scan;

impl Command for Scan {
    const SPEC: Spec = Spec {
        name: c"ctab.scan",
        flags: c"readonly",
        categories: c"countint read slow",
        arity: -3,
        keys: &[KeySpec::reads(1, 0)],
        summary: c"Returns the ids of the rows of a table page by page, in ascending order",
        complexity: c"O(log N + COUNT) where N is the number of rows",
        since: c"0.1.0",
        args: &[
            Arg::key(c"key", 0),
            Arg::int(c"cursor"),
            Arg::int(c"count").after(c"COUNT").optional(),
        ],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let count_at = match call.len() {
            3 => None,
            5 if call.is(3, "COUNT") => Some(4),
            _ => return Err(Error::Syntax),
        };
        let cursor = pages::cursor(call, 2)?;
        let count = pages::page_size(call, count_at)?;
        let key = keys.read(1);
        let mut page = buffers::numbers();
        if let Some(object) = key.table()? {
            object.table().scan(cursor, count + 1, &mut page);
        }
        let next = pages::next_ascending(&mut page, count);
        pages::reply_page(call, next, &page);
        Ok(())
    }
}
