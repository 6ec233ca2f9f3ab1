//! One call of a command: its arguments and its reply. The keys are the business of `keyspace`.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_long};
use std::slice;

use countint_core::decimal;
use redis_module::raw;

use crate::api::api;
use crate::error::Error;
use crate::guard;
use crate::keyspace::Keyspace;

/// What a command's code gives back: it has replied, or nothing has changed and the error is the reply.
pub type Outcome = Result<(), Error>;

/// A client's call of one command.
pub struct Call<'a> {
    ctx: *mut raw::RedisModuleCtx,
    argv: &'a [*mut raw::RedisModuleString],
    /// Whether the keyspace or the client's reply buffer may have been touched.
    committed: Cell<bool>,
}

impl<'a> Call<'a> {
    /// Wraps what the server hands to a command's handler.
    ///
    /// # Safety
    /// `argv` points to `argc` strings which, as `ctx`, live until the handler returns.
    unsafe fn new(
        ctx: *mut raw::RedisModuleCtx,
        argv: *mut *mut raw::RedisModuleString,
        argc: c_int,
    ) -> Self {
        // SAFETY: the caller's promise; a command has at least its own name.
        let argv = unsafe { slice::from_raw_parts(argv, argc as usize) };
        Call {
            ctx,
            argv,
            committed: Cell::new(false),
        }
    }

    /// The server's handle of this call. What may run code of other modules takes that of [`Keyspace`] instead.
    pub(crate) fn ctx(&self) -> *mut raw::RedisModuleCtx {
        self.ctx
    }

    /// The number of arguments, the command's name included.
    pub fn len(&self) -> usize {
        self.argv.len()
    }

    /// The server's handle of argument `i`, for keys.
    pub fn name(&self, i: usize) -> *mut raw::RedisModuleString {
        self.argv[i]
    }

    /// The server's handles of the arguments from `first` on.
    pub fn names(&self, first: usize) -> &[*mut raw::RedisModuleString] {
        &self.argv[first..]
    }

    /// Whether the server holds more than `maxmemory`. (Where its policy allows it has evicted before the call.)
    pub fn memory_is_full(&self) -> bool {
        api!(RedisModule_GetUsedMemoryRatio()) > 1.0
    }

    /// Whether the server only asks where the keys are.
    pub fn asks_for_keys(&self) -> bool {
        api!(RedisModule_IsKeysPositionRequest(self.ctx)) != 0
    }

    /// Answers the server's question for the keys of a call: argument `i` is one, used as `flags` say.
    pub fn tell_key(&self, i: usize, flags: u32) {
        api!(RedisModule_KeyAtPosWithFlags(
            self.ctx,
            i as c_int,
            flags as c_int
        ));
    }

    /// The bytes of argument `i` (0 is the command's name).
    #[inline]
    pub fn arg(&self, i: usize) -> &[u8] {
        // SAFETY: an argument lives, unchanged, until the handler returns.
        unsafe { bytes(self.argv[i]) }
    }

    /// Argument `i` as a canonical signed integer.
    #[inline]
    pub fn int(&self, i: usize) -> Result<i64, Error> {
        decimal::parse_i64(self.arg(i)).ok_or(Error::NotAnInteger)
    }

    /// Argument `i` as a canonical unsigned integer: a member, a rank.
    #[inline]
    pub fn unsigned(&self, i: usize) -> Result<u64, Error> {
        decimal::parse_u64(self.arg(i)).ok_or(Error::NotAnInteger)
    }

    /// Argument `i` as an idx. One that no object can have becomes `usize::MAX`: it is an error of a later check.
    #[inline]
    pub fn idx(&self, i: usize) -> Result<usize, Error> {
        self.int(i)
            .map(|n| usize::try_from(n).unwrap_or(usize::MAX))
    }

    /// Argument `i` as a number of fields, 1 ..= 65535.
    pub fn length(&self, i: usize) -> Result<usize, Error> {
        match self.int(i)? {
            n @ 1..=65_535 => Ok(n as usize),
            _ => Err(Error::Length),
        }
    }

    /// Whether argument `i` is this word, in any case.
    pub fn is(&self, i: usize, word: &str) -> bool {
        self.arg(i).eq_ignore_ascii_case(word.as_bytes())
    }

    /// From here on the keyspace or the reply may be touched: a panic can no longer be answered.
    #[inline]
    pub fn begin(&self) {
        self.committed.set(true);
    }
}

/// Replies. Each is the last thing that a command does, so the first one marks the call as committed.
impl Call<'_> {
    /// `OK`.
    pub fn reply_ok(&self) {
        self.begin();
        api!(RedisModule_ReplyWithSimpleString(self.ctx, c"OK".as_ptr()));
    }

    /// An integer. Counter values, counts and ranks stay below 2^63.
    #[inline]
    pub fn reply_int(&self, value: u64) {
        self.begin();
        api!(RedisModule_ReplyWithLongLong(self.ctx, value as i64));
    }

    /// Nil.
    pub fn reply_null(&self) {
        self.begin();
        api!(RedisModule_ReplyWithNull(self.ctx));
    }

    /// A bulk string.
    pub fn reply_bytes(&self, bytes: &[u8]) {
        self.begin();
        api!(RedisModule_ReplyWithStringBuffer(
            self.ctx,
            bytes.as_ptr().cast::<c_char>(),
            bytes.len()
        ));
    }

    /// A member or cursor: a decimal bulk string, since a RESP integer cannot hold all of them.
    pub fn reply_member(&self, member: u64) {
        self.reply_bytes(itoa::Buffer::new().format(member).as_bytes());
    }

    /// The head of an array of `len` replies, which follow.
    #[inline]
    pub fn reply_array(&self, len: usize) {
        self.begin();
        api!(RedisModule_ReplyWithArray(self.ctx, len as c_long));
    }

    /// The head of a map of `len` pairs, which follow; a flat array in RESP2.
    pub fn reply_map(&self, len: usize) {
        self.begin();
        api!(RedisModule_ReplyWithMap(self.ctx, len as c_long));
    }

    /// A whole array of integers.
    pub fn reply_ints(&self, values: impl ExactSizeIterator<Item = u64>) {
        self.reply_array(values.len());
        values.for_each(|value| self.reply_int(value));
    }

    /// The error that a command which we called has answered.
    pub fn reply_refusal(&self, reply: *mut raw::RedisModuleCallReply) {
        if reply.is_null() {
            self.reply_error(Error::Refused);
        } else {
            api!(RedisModule_ReplyWithCallReply(self.ctx, reply));
        }
    }

    fn reply_error(&self, error: Error) {
        if error == Error::Arity {
            api!(RedisModule_WrongArity(self.ctx));
        } else {
            api!(RedisModule_ReplyWithError(
                self.ctx,
                error.message().as_ptr()
            ));
        }
    }
}

/// Runs a command's code and sends its error, if it gives one, as the reply. Panics stop here.
///
/// # Safety
/// The arguments are those that the server handed to a command's handler.
pub unsafe fn dispatch(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
    run: fn(&Call, &mut Keyspace) -> Outcome,
) -> c_int {
    // SAFETY: the caller's promise.
    let call = unsafe { Call::new(ctx, argv, argc) };
    // SAFETY: the only one of this call.
    let mut keyspace = unsafe { Keyspace::new(&call) };
    match guard::catch(|| run(&call, &mut keyspace)) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => call.reply_error(error),
        Err(_) if call.committed.get() => guard::abort("a command"),
        Err(_) => {
            api!(RedisModule_ReplyWithError(
                ctx,
                c"ERR internal error".as_ptr()
            ));
        }
    }
    raw::REDISMODULE_OK as c_int
}

/// The bytes of one of the server's strings.
///
/// # Safety
/// The string lives, and nothing changes its bytes, for the whole of `'a`.
#[inline]
pub unsafe fn bytes<'a>(string: *mut raw::RedisModuleString) -> &'a [u8] {
    let mut len = 0;
    let ptr = api!(RedisModule_StringPtrLen(string, &mut len));
    // SAFETY: the server's string has `len` bytes at `ptr`; the rest is the caller's promise.
    unsafe { slice::from_raw_parts(ptr.cast::<u8>(), len) }
}

/// The NUL-terminated text of an argument (the server's strings end with one).
pub(crate) fn raw_text(string: *mut raw::RedisModuleString) -> *const c_char {
    api!(RedisModule_StringPtrLen(string, std::ptr::null_mut()))
}
