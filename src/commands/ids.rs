//! Ids as arguments, and pages of them as replies.
//!
//! The cursor of a SCAN is a place in the order of ids, not in the structure: ascending, the smallest one not yet
//! returned. So an id that is there throughout is returned exactly once, whatever is added or removed between the
//! calls. 0 starts; as a reply it ends, which no place can be mistaken for, since a next id is larger than one returned
//! before.

use countint_core::decimal;

use crate::call::Call;
use crate::error::Error;
use crate::scratch::{self, Scratch};

/// Ids that a page has unless the client says otherwise, as the server's own SCAN.
const DEFAULT_COUNT: usize = 10;

/// The most ids of one page, so that none stalls the server.
const MAX_COUNT: i64 = 1_000_000;

/// The arguments from `first` on, as ids.
pub fn ids(call: &Call, first: usize) -> Result<Scratch<u64>, Error> {
    let mut ids = scratch::numbers();
    for i in first..call.len() {
        ids.push(call.unsigned(i)?);
    }
    Ok(ids)
}

/// Argument `i` as a cursor.
pub fn cursor(call: &Call, i: usize) -> Result<u64, Error> {
    decimal::parse_u64(call.arg(i)).ok_or(Error::Cursor)
}

/// How many ids a page is to have at most: the number after COUNT, which stands at `at`, if it is there.
pub fn page_size(call: &Call, at: Option<usize>) -> Result<usize, Error> {
    let Some(at) = at else {
        return Ok(DEFAULT_COUNT);
    };
    match call.int(at)? {
        n @ 1.. => Ok(n.min(MAX_COUNT) as usize),
        _ => Err(Error::Syntax),
    }
}

/// Where the next call begins after a page in ascending order, for which one id more than asked for was looked up: there.
pub fn next_ascending(page: &mut Vec<u64>, count: usize) -> u64 {
    if page.len() > count {
        page.pop().unwrap_or(0)
    } else {
        0
    }
}

/// `[next, [id, ...]]`
pub fn reply_page(call: &Call, next: u64, page: &[u64]) {
    call.reply_array(2);
    call.reply_member(next);
    call.reply_array(page.len());
    page.iter().for_each(|&id| call.reply_member(id));
}
