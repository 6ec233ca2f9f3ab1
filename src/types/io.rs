//! What the callbacks of several types share: reading and writing RDB bodies and append-only files, of which nothing
//! read is trusted, and moving memory step by step.

use std::ffi::{CStr, c_char, c_int, c_ulong};
use std::ops::Deref;

use redis_module::raw;

use crate::api::api;
use crate::stats;

/// The most bytes that one command of a rewritten append-only file carries.
pub const CHUNK: usize = 1 << 20;

/// The stream ended, or its bytes are no body of ours.
#[derive(Debug, PartialEq, Eq)]
pub struct Rejected;

/// Reads a value's body from an RDB file, a replication link or a RESTORE payload.
pub struct Loader(*mut raw::RedisModuleIO);

impl Loader {
    /// Reads from `io`.
    pub fn new(io: *mut raw::RedisModuleIO) -> Self {
        Loader(io)
    }

    /// The next unsigned integer.
    pub fn unsigned(&self) -> Result<u64, Rejected> {
        let value = api!(RedisModule_LoadUnsigned(self.0));
        if self.failed() {
            Err(Rejected)
        } else {
            Ok(value)
        }
    }

    /// The next string. The server allocates it, and refuses one that claims more bytes than can be had.
    pub fn string(&self) -> Result<Loaded, Rejected> {
        let mut len = 0;
        let ptr = api!(RedisModule_LoadStringBuffer(self.0, &mut len));
        if ptr.is_null() || self.failed() {
            return Err(Rejected);
        }
        Ok(Loaded {
            ptr: ptr.cast(),
            len,
        })
    }

    /// Hands the strings that follow to `take`, up to an empty one, which is the end.
    pub fn blobs<E>(&self, mut take: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), Rejected> {
        loop {
            let blob = self.string()?;
            if blob.is_empty() {
                return Ok(());
            }
            take(&blob).map_err(|_| Rejected)?;
        }
    }

    fn failed(&self) -> bool {
        api!(RedisModule_IsIOError(self.0)) != 0
    }

    /// Notes in the statistics and in the log that a payload was refused.
    pub fn reject(&self, kind: &CStr) {
        stats::load_rejected();
        let format = c"countint: refused a %s payload that is damaged or forged";
        api!(RedisModule_LogIOError(
            self.0,
            c"notice".as_ptr(),
            format.as_ptr(),
            kind.as_ptr()
        ));
    }
}

/// A string that the server read for us.
pub struct Loaded {
    ptr: *mut u8,
    len: usize,
}

impl Deref for Loaded {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the server gave `len` bytes at `ptr`, which is not null, and they are ours until dropped.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        api!(RedisModule_Free(self.ptr.cast()));
    }
}

/// Writes an unsigned integer to an RDB body.
pub fn save_unsigned(io: *mut raw::RedisModuleIO, value: u64) {
    api!(RedisModule_SaveUnsigned(io, value));
}

/// Writes a string to an RDB body.
pub fn save_string(io: *mut raw::RedisModuleIO, bytes: &[u8]) {
    api!(RedisModule_SaveStringBuffer(
        io,
        bytes.as_ptr().cast::<c_char>(),
        bytes.len()
    ));
}

/// Writes `command key bytes` to an append-only file.
pub fn emit(
    io: *mut raw::RedisModuleIO,
    command: &CStr,
    key: *mut raw::RedisModuleString,
    bytes: &[u8],
) {
    api!(RedisModule_EmitAOF(
        io,
        command.as_ptr(),
        c"sb".as_ptr(),
        key,
        bytes.as_ptr().cast::<c_char>(),
        bytes.len()
    ));
}

/// Adds one element to the digest of a value, in a place-independent way.
pub fn digest_element(digest: *mut raw::RedisModuleDigest, bytes: &[u8]) {
    api!(RedisModule_DigestAddStringBuffer(
        digest,
        bytes.as_ptr().cast::<c_char>(),
        bytes.len()
    ));
    api!(RedisModule_DigestEndSequence(digest));
}

/// Where the last call of a moving callback stopped; 0 for a value whose turn begins.
pub fn defrag_cursor(ctx: *mut raw::RedisModuleDefragCtx) -> c_ulong {
    let mut cursor = 0;
    match api!(RedisModule_DefragCursorGet(ctx, &mut cursor)) as isize {
        raw::REDISMODULE_OK => cursor,
        _ => 0,
    }
}

/// What a moving callback answers when all is done.
pub const DONE: c_int = 0;

/// Moves a value's parts from `cursor` on: `step` moves those at a cursor and gives the next one, or None at the end.
/// The answer is that of a moving callback: `DONE`, or 1 when the server wants its time back before.
pub fn defrag_parts(
    ctx: *mut raw::RedisModuleDefragCtx,
    mut cursor: c_ulong,
    mut step: impl FnMut(c_ulong) -> Option<c_ulong>,
) -> c_int {
    while let Some(next) = step(cursor) {
        cursor = next;
        if api!(RedisModule_DefragShouldStop(ctx)) != 0
            && api!(RedisModule_DefragCursorSet(ctx, cursor)) == raw::REDISMODULE_OK as c_int
        {
            return 1;
        }
    }
    DONE
}
