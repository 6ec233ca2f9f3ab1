//! Appending to a stream within a command, by the server's own XADD: it replicates itself with the entry's ID, wakes
//! blocked readers and publishes its event.

use std::ffi::CStr;

use redis_module::raw;

use super::api::api;
use super::keyspace::Keyspace;
use super::log::log;

/// A stream entry that this call has appended.
pub struct StreamEntry {
    /// The reply of XADD: the entry's ID.
    reply: *mut raw::RedisModuleCallReply,
    /// The argument that names the stream.
    stream: usize,
}

impl StreamEntry {
    /// Appends the fields and values from argument `fields` on, and then the field `more` with its value, to the stream named
    /// by argument `stream`.
    ///
    /// If XADD fails (memory is full, or the ID is not larger than the last), its error is the reply of the call,
    /// nothing has changed, and the result is None. Runs hooks: every key may have changed afterwards.
    pub fn append(
        keys: &mut Keyspace,
        stream: usize,
        id: &CStr,
        fields: usize,
        more: Option<(&CStr, &[u8])>,
    ) -> Option<StreamEntry> {
        let call = keys.call();
        let (ctx, name, data) = (keys.ctx(), call.handle(stream), call.handles(fields));
        // `!` replicates, `E` returns errors as replies, `M` fails when memory is full.
        let reply = match more {
            None => api!(RedisModule_Call(
                ctx,
                c"XADD".as_ptr(),
                c"!EMscv".as_ptr(),
                name,
                id.as_ptr(),
                data.as_ptr(),
                data.len()
            )),
            Some((field, value)) => api!(RedisModule_Call(
                ctx,
                c"XADD".as_ptr(),
                c"!EMscvcb".as_ptr(),
                name,
                id.as_ptr(),
                data.as_ptr(),
                data.len(),
                field.as_ptr(),
                value.as_ptr(),
                value.len()
            )),
        };
        let entry = StreamEntry { reply, stream };
        if entry.was_appended() {
            call.begin_effects();
            return Some(entry);
        }
        // SAFETY: the reply lives until `entry` is dropped.
        unsafe { call.reply_call_error(reply) };
        None
    }

    fn was_appended(&self) -> bool {
        !self.reply.is_null()
            && api!(RedisModule_CallReplyType(self.reply)) == raw::REDISMODULE_REPLY_STRING as i32
    }

    /// Trims the stream to about `maxlen` entries.
    ///
    /// XADD's own MAXLEN would trim before the entry can still be removed, and would use a stream that a hook of
    /// `xadd` may have deleted.
    pub fn trim(&self, keys: &mut Keyspace, maxlen: i64) {
        let entries = keys.write(self.stream).element_count();
        if i64::try_from(entries).is_ok_and(|entries| entries <= maxlen) {
            return;
        }
        let name = keys.call().handle(self.stream);
        let reply = api!(RedisModule_Call(
            keys.ctx(),
            c"XTRIM".as_ptr(),
            c"!sccl".as_ptr(),
            name,
            c"MAXLEN".as_ptr(),
            c"~".as_ptr(),
            maxlen
        ));
        if !reply.is_null() {
            api!(RedisModule_FreeCallReply(reply));
        }
    }

    /// Deletes the entry, here and on replicas. Its ID stays used. Runs hooks.
    pub fn delete(self, keys: &mut Keyspace) {
        let name = keys.call().handle(self.stream);
        let mut len = 0;
        let id = api!(RedisModule_CallReplyStringPtr(self.reply, &mut len));
        let reply = api!(RedisModule_Call(
            keys.ctx(),
            c"XDEL".as_ptr(),
            c"!sb".as_ptr(),
            name,
            id,
            len
        ));
        if reply.is_null() {
            // A hook has replaced the stream by another type, so the entry no longer exists.
            log(
                c"warning",
                "countint: XDEL of an appended entry failed: a keyspace hook of another module has replaced the stream",
            );
        } else {
            api!(RedisModule_FreeCallReply(reply));
        }
    }
}

impl Drop for StreamEntry {
    fn drop(&mut self) {
        if !self.reply.is_null() {
            api!(RedisModule_FreeCallReply(self.reply));
        }
    }
}
