//! Reading and writing RDB bodies and append-only files. Nothing read is trusted.

use std::ffi::{CStr, c_char, c_int};
use std::ops::Deref;

use redis_module::raw;

use crate::api::api;
use crate::stats;

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

/// What a moving or copying callback answers when all is done.
pub const DONE: c_int = 0;
/// What a moving callback answers when it wants to be called again.
pub const MORE: c_int = 1;
