//! `CINT.MREAD`: the counters of several objects as one packed string.

use countint_core::countint::FIELD_BYTES;

use crate::commands::shared::buffers;
use crate::error::Error;
use crate::server::reply::MAX_BULK;
use crate::server::{Arg, Call, Command, KeySpec, Keyspace, Outcome, Spec};

/// `CINT.MREAD len key [key ...]`
pub struct MRead;

impl Command for MRead {
    const SPEC: Spec = Spec {
        name: c"cint.mread",
        flags: c"readonly",
        categories: c"countint read slow",
        arity: -3,
        keys: &[KeySpec::reads(2, -1)],
        summary: c"Returns the first counters of several objects as one string of 5-byte big-endian numbers",
        complexity: c"O(N*len) where N is the number of keys",
        since: c"0.1.0",
        args: &[Arg::int(c"len"), Arg::key(c"key", 0).multiple()],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let width = call.length(1)? * FIELD_BYTES;
        let total = width.saturating_mul(call.len() - 2);
        if total > MAX_BULK {
            return Err(Error::ReplyTooLong);
        }
        let mut page = buffers::bytes();
        page.try_reserve(total).map_err(|_| Error::OutOfMemory)?;
        // All keys are looked up before any counters are read, so that their cache misses overlap.
        let values = keys.values(2..call.len());
        for n in 0..values.len() {
            let end = page.len() + width;
            if let Some(fields) = values.fields(n)? {
                let bytes = fields.as_bytes();
                page.extend_from_slice(&bytes[..bytes.len().min(width)]);
            }
            page.resize(end, 0);
        }
        call.reply_bytes(&page);
        Ok(())
    }
}
