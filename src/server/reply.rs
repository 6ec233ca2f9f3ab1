//! Replies. A command replies last, so the first reply marks the call as having effects.

use std::ffi::{CStr, c_char, c_long};

use redis_module::raw;

use super::api::api;
use super::call::Call;
use crate::error::Error;

/// The maximum length of a bulk string, in bytes.
pub const MAX_BULK: usize = 512 << 20;

impl Call<'_> {
    /// `OK`.
    pub fn reply_ok(&self) {
        self.begin_effects();
        api!(RedisModule_ReplyWithSimpleString(
            self.ctx(),
            c"OK".as_ptr()
        ));
    }

    /// An integer below 2^63.
    #[inline]
    pub fn reply_int(&self, value: u64) {
        self.begin_effects();
        api!(RedisModule_ReplyWithLongLong(self.ctx(), value as i64));
    }

    /// Nil.
    pub fn reply_null(&self) {
        self.begin_effects();
        api!(RedisModule_ReplyWithNull(self.ctx()));
    }

    /// A bulk string.
    pub fn reply_bytes(&self, bytes: &[u8]) {
        self.begin_effects();
        api!(RedisModule_ReplyWithStringBuffer(
            self.ctx(),
            bytes.as_ptr().cast::<c_char>(),
            bytes.len()
        ));
    }

    /// A decimal bulk string, for unsigned 64-bit integers, which a RESP integer cannot hold.
    pub fn reply_decimal(&self, value: u64) {
        self.reply_bytes(itoa::Buffer::new().format(value).as_bytes());
    }

    /// The header of an array; `len` replies follow.
    #[inline]
    pub fn reply_array(&self, len: usize) {
        self.begin_effects();
        api!(RedisModule_ReplyWithArray(self.ctx(), len as c_long));
    }

    /// The header of a map, which is a flat array in RESP2; `len` pairs follow.
    pub fn reply_map(&self, len: usize) {
        self.begin_effects();
        api!(RedisModule_ReplyWithMap(self.ctx(), len as c_long));
    }

    /// An array of integers.
    pub fn reply_ints(&self, values: impl ExactSizeIterator<Item = u64>) {
        self.reply_array(values.len());
        values.for_each(|value| self.reply_int(value));
    }

    /// An error.
    pub(super) fn reply_error(&self, error: Error) {
        if error == Error::Arity {
            api!(RedisModule_WrongArity(self.ctx()));
        } else {
            self.reply_error_text(error.message());
        }
    }

    /// An error with this text.
    pub(super) fn reply_error_text(&self, text: &CStr) {
        api!(RedisModule_ReplyWithError(self.ctx(), text.as_ptr()));
    }

    /// The error that `RedisModule_Call` returned; null is an error without a message.
    ///
    /// # Safety
    /// `reply` is null or a live reply of `RedisModule_Call`.
    pub(super) unsafe fn reply_call_error(&self, reply: *mut raw::RedisModuleCallReply) {
        if reply.is_null() {
            self.reply_error(Error::Refused);
        } else {
            api!(RedisModule_ReplyWithCallReply(self.ctx(), reply));
        }
    }
}
