//! Pages of ids, for the SCAN commands.
//!
//! A cursor is an id: the smallest one not yet returned, in ascending order. It does not depend on the structure, so an
//! id that exists throughout a scan is returned exactly once, even if other ids are added or removed meanwhile. 0
//! starts a scan and, in a reply, ends it: a next id is larger than a returned one, so it is never 0.

use countint_core::decimal;

use crate::error::Error;
use crate::server::Call;

/// The page size without COUNT, as in the server's SCAN.
const DEFAULT_COUNT: usize = 10;

/// The maximum page size, so that no call blocks the server for long.
const MAX_COUNT: i64 = 1_000_000;

/// Argument `i` as a cursor.
pub fn cursor(call: &Call, i: usize) -> Result<u64, Error> {
    decimal::parse_u64(call.arg(i)).ok_or(Error::Cursor)
}

/// The page size: the number after COUNT, at argument `at` if given.
pub fn page_size(call: &Call, at: Option<usize>) -> Result<usize, Error> {
    let Some(at) = at else {
        return Ok(DEFAULT_COUNT);
    };
    match call.int(at)? {
        n @ 1.. => Ok(n.min(MAX_COUNT) as usize),
        _ => Err(Error::Syntax),
    }
}

/// The next cursor after an ascending page for which `count + 1` ids were read: the surplus id, removed from the page.
pub fn next_ascending(page: &mut Vec<u64>, count: usize) -> u64 {
    if page.len() > count {
        page.pop().unwrap_or(0)
    } else {
        0
    }
}

/// Replies `[next, [id, ...]]`.
pub fn reply_page(call: &Call, next: u64, page: &[u64]) {
    call.reply_array(2);
    call.reply_decimal(next);
    call.reply_array(page.len());
    page.iter().for_each(|&id| call.reply_decimal(id));
}
