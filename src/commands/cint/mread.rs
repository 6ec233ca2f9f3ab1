//! `CINT.MREAD`: a page of objects as one packed string.

use countint_core::countint::FIELD_BYTES;

use crate::call::{Call, Outcome};
use crate::commands::MAX_REPLY;
use crate::error::Error;
use crate::key::Key;
use crate::scratch;
use crate::spec::{Arg, Command, KeySpec, Spec};

/// Objects that are read together. Few of many are in the processor's caches, and so it waits for some of them at once.
const TOGETHER: usize = 16;

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

    fn run(call: &Call) -> Outcome {
        let width = call.length(1)? * FIELD_BYTES;
        let total = width.saturating_mul(call.len() - 2);
        if total > MAX_REPLY {
            return Err(Error::ReplyTooLong);
        }
        let mut page = scratch::bytes();
        page.try_reserve(total).map_err(|_| Error::OutOfMemory)?;
        for first in (2..call.len()).step_by(TOGETHER) {
            append(call, first, width, &mut page)?;
        }
        call.reply_bytes(&page);
        Ok(())
    }
}

/// Appends the first `width` bytes of the objects from argument `first` on.
fn append(call: &Call, first: usize, width: usize, page: &mut Vec<u8>) -> Result<(), Error> {
    let keys: [Option<Key>; TOGETHER] =
        std::array::from_fn(|n| (first + n < call.len()).then(|| call.read(first + n)));
    let mut objects = [None; TOGETHER];
    for (object, key) in objects.iter_mut().zip(keys.iter().flatten()) {
        *object = key.fields()?;
    }
    for object in objects.iter().take(call.len() - first) {
        let end = page.len() + width;
        if let Some(fields) = object {
            let bytes = fields.as_bytes();
            page.extend_from_slice(&bytes[..bytes.len().min(width)]);
        }
        page.resize(end, 0);
    }
    Ok(())
}
