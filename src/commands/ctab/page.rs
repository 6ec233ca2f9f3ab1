//! `CTAB.PAGE`: the counters of rows of several tables as one packed string.

use countint_core::countint::FIELD_BYTES;
use countint_core::counttab::read_pairs;

use crate::commands::shared::buffers;
use crate::error::Error;
use crate::server::reply::MAX_BULK;
use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Spec};

/// The position of the first key.
const FIRST: usize = 3;

/// `CTAB.PAGE len numpairs key id [key id ...]`
pub struct Page;

impl Command for Page {
    const SPEC: Spec = Spec {
        name: c"ctab.page",
        flags: c"readonly",
        categories: c"countint read slow",
        arity: -5,
        // A range. With a specification by `numpairs`, Redis before 8.10 and Valkey before 9.1 find only the first half of
        // the keys, because they count the ids too, and access control would not check the others.
        keys: &[KeySpec::reads(FIRST as _, -1).every(2)],
        summary: c"Returns the first counters of rows of several tables as one string of 5-byte big-endian numbers",
        complexity: c"O(P*(log N + len)) where P is the number of pairs and N the number of rows of a table",
        since: c"0.1.0",
        args: &[
            Arg::int(c"len"),
            Arg::int(c"numpairs"),
            Arg::block(c"pair", &[Arg::key(c"key", 0), Arg::int(c"id")]).multiple(),
        ],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let pairs = (call.len() - FIRST) / 2;
        if call.int(2)? != pairs as i64 || !(call.len() - FIRST).is_multiple_of(2) {
            return Err(Error::Syntax);
        }
        let len = call.length(1)?;
        let mut ids = buffers::numbers();
        for at in (FIRST + 1..call.len()).step_by(2) {
            ids.push(call.unsigned(at)?);
        }
        // All keys are looked up before any row is read: a hook may change a table while keys are opened.
        let values = keys.values((FIRST..call.len()).step_by(2));
        for n in 0..values.len() {
            values.table(n)?;
        }
        let total = pairs.saturating_mul(len * FIELD_BYTES);
        if total > MAX_BULK {
            return Err(Error::ReplyTooLong);
        }
        let mut page = buffers::bytes();
        page.try_reserve(total).map_err(|_| Error::OutOfMemory)?;
        let table = |n| Some(values.table(n).ok()??.table());
        let pairs = ids.iter().enumerate().map(|(n, &id)| (table(n), id));
        read_pairs(pairs, len, &mut page);
        call.reply_bytes(&page);
        Ok(())
    }
}
