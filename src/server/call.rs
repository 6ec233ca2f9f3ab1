//! A call of a command: its arguments, and whether it has had an effect.

use std::cell::Cell;
use std::ffi::c_int;
use std::slice;

use countint_core::decimal;
use redis_module::raw;

use super::api::api;
use super::string;
use crate::error::Error;

/// The result of a command: `Ok` after it has replied; an error, which is the reply, if nothing has changed.
pub type Outcome = Result<(), Error>;

/// A call of a command by a client.
pub struct Call<'a> {
    ctx: *mut raw::RedisModuleCtx,
    argv: &'a [*mut raw::RedisModuleString],
    /// Whether the keyspace or the client's reply buffer may have been changed.
    has_effects: Cell<bool>,
}

impl<'a> Call<'a> {
    /// Wraps the arguments of a command's handler.
    ///
    /// # Safety
    /// `argv` points to `argc` strings which, like `ctx`, live until the handler returns.
    pub(super) unsafe fn new(
        ctx: *mut raw::RedisModuleCtx,
        argv: *mut *mut raw::RedisModuleString,
        argc: c_int,
    ) -> Self {
        // SAFETY: the caller's promise; the first argument is the command's name.
        let argv = unsafe { slice::from_raw_parts(argv, argc as usize) };
        Call {
            ctx,
            argv,
            has_effects: Cell::new(false),
        }
    }

    /// The server's handle of the call. Functions that may run hooks of other modules take that of the `Keyspace`.
    pub(super) fn ctx(&self) -> *mut raw::RedisModuleCtx {
        self.ctx
    }

    /// The number of arguments, including the command's name.
    pub fn len(&self) -> usize {
        self.argv.len()
    }

    /// The server's handle of argument `i`.
    pub(super) fn handle(&self, i: usize) -> *mut raw::RedisModuleString {
        self.argv[i]
    }

    /// The server's handles of the arguments from `first` on.
    pub(super) fn handles(&self, first: usize) -> &[*mut raw::RedisModuleString] {
        &self.argv[first..]
    }

    /// Whether the server uses more memory than `maxmemory`, after the eviction that its policy allows.
    pub fn is_memory_full(&self) -> bool {
        api!(RedisModule_GetUsedMemoryRatio()) > 1.0
    }

    /// Whether the server asks for the positions of the keys instead of running the command.
    pub fn is_keys_request(&self) -> bool {
        api!(RedisModule_IsKeysPositionRequest(self.ctx)) != 0
    }

    /// Reports argument `i` as a key with `flags` (see [`super::KeySpec`]), in answer to a keys request.
    pub fn report_key(&self, i: usize, flags: u32) {
        api!(RedisModule_KeyAtPosWithFlags(
            self.ctx,
            i as c_int,
            flags as c_int
        ));
    }

    /// The bytes of argument `i`; argument 0 is the command's name.
    #[inline]
    pub fn arg(&self, i: usize) -> &[u8] {
        // SAFETY: an argument lives, unchanged, until the handler returns.
        unsafe { string::bytes(self.argv[i]) }
    }

    /// Argument `i` as a canonical signed integer.
    #[inline]
    pub fn int(&self, i: usize) -> Result<i64, Error> {
        decimal::parse_i64(self.arg(i)).ok_or(Error::NotAnInteger)
    }

    /// Argument `i` as a canonical unsigned integer.
    #[inline]
    pub fn unsigned(&self, i: usize) -> Result<u64, Error> {
        decimal::parse_u64(self.arg(i)).ok_or(Error::NotAnInteger)
    }

    /// Whether argument `i` is the keyword `word`, in any case.
    pub fn is(&self, i: usize, word: &str) -> bool {
        self.arg(i).eq_ignore_ascii_case(word.as_bytes())
    }

    /// Marks the point from which the keyspace or the reply may change: a later panic aborts the process.
    #[inline]
    pub fn begin_effects(&self) {
        self.has_effects.set(true);
    }

    /// Whether [`Call::begin_effects`] has been called.
    pub(super) fn has_effects(&self) -> bool {
        self.has_effects.get()
    }
}
