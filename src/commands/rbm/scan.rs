//! `RBM.SCAN`: a set, page by page.
//!
//! The cursor is a place in the order of ids, not in the structure: ascending, the smallest member not yet returned;
//! descending, the last one returned. So a member that is there throughout is returned exactly once, whatever is
//! added or removed between the calls. 0 starts; as a reply it ends, which no place can be mistaken for: ascending,
//! a next member is larger than one returned before; descending, there is a smaller one after it.

use countint_core::decimal;
use countint_core::idset::IdSet;

use crate::call::{Call, Outcome};
use crate::error::Error;
use crate::scratch;
use crate::spec::{Arg, Command, KeySpec, Spec};

/// Members a call returns unless the client says otherwise, as the server's own SCAN.
const DEFAULT_COUNT: usize = 10;

/// The most members that one call returns, so that none stalls the server.
const MAX_COUNT: i64 = 1_000_000;

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

    fn run(call: &Call) -> Outcome {
        let (count_at, reverse) = options(call)?;
        let cursor = decimal::parse_u64(call.arg(2)).ok_or(Error::Cursor)?;
        let count = count_at.map_or(Ok(DEFAULT_COUNT), |at| count(call, at))?;
        let key = call.read(1);
        let mut page = scratch::numbers();
        let next = match key.set()? {
            None => 0,
            Some(set) if reverse => descending(&set, cursor, count, &mut page),
            Some(set) => ascending(&set, cursor, count, &mut page),
        };
        call.reply_array(2);
        call.reply_member(next);
        call.reply_array(page.len());
        page.iter().for_each(|&member| call.reply_member(member));
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

fn count(call: &Call, at: usize) -> Result<usize, Error> {
    match call.int(at)? {
        n @ 1.. => Ok(n.min(MAX_COUNT) as usize),
        _ => Err(Error::Syntax),
    }
}

fn ascending(set: &IdSet, cursor: u64, count: usize, page: &mut Vec<u64>) -> u64 {
    set.scan(cursor, count + 1, page);
    // One more than asked for was looked up: it is where the next call begins.
    if page.len() > count {
        page.pop().unwrap_or(0)
    } else {
        0
    }
}

fn descending(set: &IdSet, cursor: u64, count: usize, page: &mut Vec<u64>) -> u64 {
    set.scan_rev(cursor.wrapping_sub(1), count + 1, page); // 0, the start, becomes the largest id
    if page.len() <= count {
        return 0;
    }
    page.pop();
    page.last().copied().unwrap_or(0)
}
