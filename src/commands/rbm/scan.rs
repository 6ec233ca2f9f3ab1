//! `RBM.SCAN`: returns the members of a set in pages.
//!
//! Ascending cursors are those of `commands::shared::pages`. A descending cursor is the last member returned. It is
//! 0 only at the end, since no member is smaller than 0.

use countint_core::idset::IdSet;

use crate::commands::shared::buffers;
use crate::commands::shared::pages;
use crate::error::Error;
use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Spec};

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
        let cursor = pages::cursor(call, 2)?;
        let count = pages::page_size(call, count_at)?;
        let key = keys.read(1);
        let mut page = buffers::numbers();
        let next = match key.set()? {
            None => 0,
            Some(set) if reverse => descending(&set, cursor, count, &mut page),
            Some(set) => {
                set.scan(cursor, count + 1, &mut page);
                pages::next_ascending(&mut page, count)
            }
        };
        pages::reply_page(call, next, &page);
        Ok(())
    }
}

/// The position of COUNT's number, and whether REV is given.
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
    set.scan_rev(cursor.wrapping_sub(1), count + 1, page); // 0, which starts a scan, becomes the largest id
    if page.len() <= count {
        return 0;
    }
    page.pop();
    page.last().copied().unwrap_or(0)
}
