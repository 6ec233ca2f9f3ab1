//! `CINT.MREAD`: a page of objects as one packed string.

use countint_core::countint::FIELD_BYTES;

use crate::call::{Call, Outcome};
use crate::commands::MAX_REPLY;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::scratch;
use crate::spec::{Arg, Command, KeySpec, Spec};

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
        if total > MAX_REPLY {
            return Err(Error::ReplyTooLong);
        }
        let mut page = scratch::bytes();
        page.try_reserve(total).map_err(|_| Error::OutOfMemory)?;
        // One after another what the keys hold, then the counters: most of them are in main memory, not in the processor's
        // caches, and so it waits for several of them at once.
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
