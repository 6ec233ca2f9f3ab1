//! Writing a value to a rewritten append-only file as commands.

use std::ffi::{CStr, c_char};

use redis_module::raw;

use super::api::api;

/// The maximum number of bytes of data in one command of a rewritten append-only file.
pub const MAX_CHUNK: usize = 1 << 20;

/// Writes the commands that restore one key.
pub struct AofWriter {
    io: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
}

impl AofWriter {
    /// Writes commands for `key` to `io`.
    ///
    /// # Safety
    /// Both are the handles that the server passed to the current `aof_rewrite` callback.
    pub unsafe fn new(io: *mut raw::RedisModuleIO, key: *mut raw::RedisModuleString) -> Self {
        AofWriter { io, key }
    }

    /// Writes `command key bytes`.
    pub fn emit(&self, command: &CStr, bytes: &[u8]) {
        api!(RedisModule_EmitAOF(
            self.io,
            command.as_ptr(),
            c"sb".as_ptr(),
            self.key,
            bytes.as_ptr().cast::<c_char>(),
            bytes.len()
        ));
    }
}
