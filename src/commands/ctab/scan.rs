//! `CTAB.SCAN`: the ids of a table, page by page.
//!
//! The cursor is a place in the order of ids: the smallest one not yet returned. So a row that is there throughout is
//! returned exactly once, whatever is added or removed between the calls. 0 starts; as a reply it ends, which no place
//! can be mistaken for, since a next id is larger than one returned before.

use countint_core::decimal;

use crate::call::{Call, Outcome};
use crate::error::Error;
use crate::scratch;
use crate::spec::{Arg, Command, KeySpec, Spec};

/// Ids a call returns unless the client says otherwise, as the server's own SCAN.
const DEFAULT_COUNT: usize = 10;

/// The most ids that one call returns, so that none stalls the server.
const MAX_COUNT: i64 = 1_000_000;

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

    fn run(call: &Call) -> Outcome {
        let with_count = match call.len() {
            3 => false,
            5 if call.is(3, "COUNT") => true,
            _ => return Err(Error::Syntax),
        };
        let cursor = decimal::parse_u64(call.arg(2)).ok_or(Error::Cursor)?;
        let count = if with_count {
            count(call, 4)?
        } else {
            DEFAULT_COUNT
        };
        let key = call.read(1);
        let mut page = scratch::numbers();
        if let Some(object) = key.table()? {
            object.table().scan(cursor, count + 1, &mut page);
        }
        // One more than asked for was looked up: it is where the next call begins.
        let next = if page.len() > count {
            page.pop().unwrap_or(0)
        } else {
            0
        };
        call.reply_array(2);
        call.reply_member(next);
        call.reply_array(page.len());
        page.iter().for_each(|&id| call.reply_member(id));
        Ok(())
    }
}

fn count(call: &Call, at: usize) -> Result<usize, Error> {
    match call.int(at)? {
        n @ 1.. => Ok(n.min(MAX_COUNT) as usize),
        _ => Err(Error::Syntax),
    }
}
