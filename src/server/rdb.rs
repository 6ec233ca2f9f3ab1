//! Reads and writes the body of a value in an RDB file, a replication link or a DUMP payload. The input is not trusted.

use std::ffi::{CStr, c_char};
use std::ops::Deref;

use redis_module::raw;

use super::api::api;
use crate::stats;

/// The error of a truncated or invalid body.
#[derive(Debug, PartialEq, Eq)]
pub struct Rejected;

/// Reads a value's body.
pub struct Loader(*mut raw::RedisModuleIO);

impl Loader {
    /// Reads from `io`.
    ///
    /// # Safety
    /// `io` is the handle that the server passed to the current `rdb_load` callback.
    pub unsafe fn new(io: *mut raw::RedisModuleIO) -> Self {
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

    /// The next string. The server allocates it, and fails if the memory for the claimed length is not available.
    pub fn string(&self) -> Result<LoadedString, Rejected> {
        let mut len = 0;
        let ptr = api!(RedisModule_LoadStringBuffer(self.0, &mut len));
        if ptr.is_null() || self.failed() {
            return Err(Rejected);
        }
        Ok(LoadedString {
            ptr: ptr.cast(),
            len,
        })
    }

    /// Passes the next strings to `take`, up to an empty one, which ends the list.
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

    /// Counts and logs a rejected payload of the type `name`.
    pub fn reject(&self, name: &CStr) {
        stats::load_rejected();
        let format = c"countint: refused a %s payload that is damaged or forged";
        api!(RedisModule_LogIOError(
            self.0,
            c"notice".as_ptr(),
            format.as_ptr(),
            name.as_ptr()
        ));
    }
}

/// A string that the server loaded. Freed on drop.
pub struct LoadedString {
    ptr: *mut u8,
    len: usize,
}

impl Deref for LoadedString {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the server returned `len` bytes at `ptr`, which is not null; the module owns them until the drop.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }
}

impl Drop for LoadedString {
    fn drop(&mut self) {
        api!(RedisModule_Free(self.ptr.cast()));
    }
}

/// Writes a value's body.
pub struct Saver(*mut raw::RedisModuleIO);

impl Saver {
    /// Writes to `io`.
    ///
    /// # Safety
    /// `io` is the handle that the server passed to the current `rdb_save` callback.
    pub unsafe fn new(io: *mut raw::RedisModuleIO) -> Self {
        Saver(io)
    }

    /// Writes an unsigned integer.
    pub fn unsigned(&self, value: u64) {
        api!(RedisModule_SaveUnsigned(self.0, value));
    }

    /// Writes a string.
    pub fn string(&self, bytes: &[u8]) {
        api!(RedisModule_SaveStringBuffer(
            self.0,
            bytes.as_ptr().cast::<c_char>(),
            bytes.len()
        ));
    }
}
