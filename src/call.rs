//! One call of a command: its arguments, and what to tell the server when it has changed something.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_long};
use std::slice;

use countint_core::decimal;
use redis_module::raw;

use crate::api::api;
use crate::error::Error;
use crate::guard;

/// What a command's code gives back: it has replied, or nothing has changed and the error is the reply.
pub type Outcome = Result<(), Error>;

/// How a change reaches replicas and the append-only file.
#[derive(Clone, Copy)]
pub enum Replicate {
    /// As the client sent it: it means the same there.
    Verbatim,
    /// With `LEN len` put in before argument `at`, because the object was created with a length that the other side
    /// may not share.
    WithLen {
        /// The length of the object that the call created.
        len: usize,
        /// Where the command takes the option.
        at: usize,
    },
    /// As `CINT.SET key LEN len idx value`, for a command that takes no length of its own.
    AsSet {
        /// The length of the object that the call created.
        len: usize,
        /// The counter that it set.
        idx: usize,
        /// The counter's value.
        value: u64,
    },
    /// As `CTAB.SET key id LEN len idx value`, likewise, with the arguments' own id, idx and value.
    AsRow {
        /// The length of the table that the call created.
        len: usize,
    },
}

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

    /// The server's handle of this call.
    pub fn ctx(&self) -> *mut raw::RedisModuleCtx {
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
        bytes(self.argv[i])
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

    /// Tells the server that this call changed the key at argument `key`: WATCHers and client caches, replicas and
    /// the append-only file, subscribers of `event`.
    #[inline]
    pub fn changed(&self, key: usize, event: &CStr, replicate: Replicate) {
        self.signal_and_replicate(key, replicate);
        self.notify(raw::REDISMODULE_NOTIFY_MODULE, event, key);
    }

    /// The same without an event.
    #[inline]
    pub fn signal_and_replicate(&self, key: usize, replicate: Replicate) {
        self.signal(key);
        match replicate {
            Replicate::Verbatim => {
                api!(RedisModule_ReplicateVerbatim(self.ctx));
            }
            Replicate::WithLen { len, at } => self.replicate_with_len(len, at),
            Replicate::AsSet { len, idx, value } => self.replicate_set(len, idx, value),
            Replicate::AsRow { len } => self.replicate_row(len),
        }
    }

    /// Makes WATCHers fail and client caches drop the key at argument `key`.
    #[inline]
    pub fn signal(&self, key: usize) {
        api!(RedisModule_SignalModifiedKey(self.ctx, self.argv[key]));
    }

    /// Publishes a keyspace event of `class` for the key at argument `key`.
    pub fn notify(&self, class: c_int, event: &CStr, key: usize) {
        api!(RedisModule_NotifyKeyspaceEvent(
            self.ctx,
            class,
            event.as_ptr(),
            self.argv[key]
        ));
    }

    fn replicate_with_len(&self, len: usize, at: usize) {
        let (before, after) = (&self.argv[1..at], &self.argv[at..]);
        api!(RedisModule_Replicate(
            self.ctx,
            raw_text(self.argv[0]),
            c"vclv".as_ptr(),
            before.as_ptr(),
            before.len(),
            c"LEN".as_ptr(),
            len as i64,
            after.as_ptr(),
            after.len()
        ));
    }

    /// Replicates `command key member`, the effect on a set of a command that has others too.
    pub fn replicate_member(&self, command: &CStr, key: usize, member: usize) {
        let (key, member) = (self.argv[key], self.argv[member]);
        api!(RedisModule_Replicate(
            self.ctx,
            command.as_ptr(),
            c"ss".as_ptr(),
            key,
            member
        ));
    }

    /// Replicates `command ... delta [LEN len]`, the dots being the arguments at `names`: the effect on a counter of a
    /// command that has others too.
    pub fn replicate_increment<const N: usize>(
        &self,
        command: &CStr,
        names: [usize; N],
        delta: i64,
        len: Option<usize>,
    ) {
        let (command, names) = (command.as_ptr(), names.map(|i| self.argv[i]));
        let names = names.as_ptr();
        match len {
            None => api!(RedisModule_Replicate(
                self.ctx,
                command,
                c"vl".as_ptr(),
                names,
                N,
                delta
            )),
            Some(len) => api!(RedisModule_Replicate(
                self.ctx,
                command,
                c"vlcl".as_ptr(),
                names,
                N,
                delta,
                c"LEN".as_ptr(),
                len as i64
            )),
        };
    }

    fn replicate_row(&self, len: usize) {
        let after = &self.argv[3..];
        api!(RedisModule_Replicate(
            self.ctx,
            c"CTAB.SET".as_ptr(),
            c"ssclv".as_ptr(),
            self.argv[1],
            self.argv[2],
            c"LEN".as_ptr(),
            len as i64,
            after.as_ptr(),
            after.len()
        ));
    }

    fn replicate_set(&self, len: usize, idx: usize, value: u64) {
        let (len, idx, value) = (len as i64, idx as i64, value as i64);
        api!(RedisModule_Replicate(
            self.ctx,
            c"CINT.SET".as_ptr(),
            c"sclll".as_ptr(),
            self.argv[1],
            c"LEN".as_ptr(),
            len,
            idx,
            value
        ));
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
    run: fn(&Call) -> Outcome,
) -> c_int {
    // SAFETY: the caller's promise.
    let call = unsafe { Call::new(ctx, argv, argc) };
    match guard::catch(|| run(&call)) {
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
#[inline]
pub fn bytes<'a>(string: *mut raw::RedisModuleString) -> &'a [u8] {
    let mut len = 0;
    let ptr = api!(RedisModule_StringPtrLen(string, &mut len));
    // SAFETY: the server's string holds `len` bytes and, being an argument or a value held by the caller, outlives
    // its use; nothing changes its bytes meanwhile.
    unsafe { slice::from_raw_parts(ptr.cast::<u8>(), len) }
}

/// The NUL-terminated text of an argument (the server's strings end with one).
fn raw_text(string: *mut raw::RedisModuleString) -> *const c_char {
    api!(RedisModule_StringPtrLen(string, std::ptr::null_mut()))
}
