//! `RBM.SCAN`: a set, page by page.
//!
//! What `commands::ids` says of cursors holds here too. Descending, the cursor is the last member returned, and 0 as a reply
//! is the end, since there is a smaller member after any other.

use countint_core::idset::IdSet;

use crate::call::{Call, Outcome};
use crate::commands::ids;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::scratch;
use crate::spec::{Arg, Command, KeySpec, Spec};

/// `RBM.SCAN key cursor [COUNT n] [REV]`
pub struct Scan;

impl Command for Scan {
    const SPEC: Spec = Spec {
        name: c"rbm.scan",
        flags: c"readonly",
        categories: c"rbm read slow",
        arity: -3,
        keys: &[KeySpec::reads(1, 0)],
        summary: c"Returns the members of a set page by page, in ascending or descending order",
        complexity: c"O(log N + COUNT) where N is the cardinality of the set",
        since: c"0.1.0",
        args: &[
            Arg::key(c"key", 0),
            Arg::int(c"cursor"),
            Arg::int(c"count").after(c"COUNT").optional(),
            Arg::word(c"rev", c"REV").optional(),
        ],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let (count_at, reverse) = options(call)?;
        let cursor = ids::cursor(call, 2)?;
        let count = ids::page_size(call, count_at)?;
        let key = keys.read(1);
        let mut page = scratch::numbers();
        let next = match key.set()? {
            None => 0,
            Some(set) if reverse => descending(&set, cursor, count, &mut page),
            Some(set) => {
                set.scan(cursor, count + 1, &mut page);
                ids::next_ascending(&mut page, count)
            }
        };
        ids::reply_page(call, next, &page);
        Ok(())
    }
}

/// Where COUNT's number stands, and whether REV is there.
fn options(call: &Call) -> Result<(Option<usize>, bool), Error> {
    let (mut count_at, mut reverse) = (None, false);
    let mut at = 3;
    while at < call.len() {
        if call.is(at, "COUNT") && count_at.is_none() && at + 1 < call.len() {
            count_at = Some(at + 1);
            at += 2;
        } else if call.is(at, "REV") && !reverse {
            reverse = true;
            at += 1;
        } else {
            return Err(Error::Syntax);
        }
    }
    Ok((count_at, reverse))
}

fn descending(set: &IdSet, cursor: u64, count: usize, page: &mut Vec<u64>) -> u64 {
    set.scan_rev(cursor.wrapping_sub(1), count + 1, page); // 0, the start, becomes the largest id
    if page.len() <= count {
        return 0;
    }
    page.pop();
    page.last().copied().unwrap_or(0)
}
