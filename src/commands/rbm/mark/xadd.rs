//! Appending to a stream as part of a command: the server's own XADD, which replicates itself with the entry's id,
//! wakes blocked readers and publishes its event.

use redis_module::raw;

use super::layout::EventAt;
use crate::api::api;
use crate::call::Call;
use crate::guard;
use crate::keyspace::Keyspace;

/// An entry that was appended.
pub struct Entry {
    /// What XADD has answered: the entry's id.
    reply: *mut raw::RedisModuleCallReply,
    /// The argument that names the stream.
    stream: usize,
}

/// Appends the event. If the server refuses it (full memory, ids that are used up or must grow), its error becomes the
/// reply, nothing has changed, and there is no entry.
///
/// Hooks of other modules run meanwhile: whatever was known of any key may be wrong afterwards.
pub fn append(
    call: &Call,
    keys: &mut Keyspace,
    event: &EventAt,
    maxlen: Option<i64>,
) -> Option<Entry> {
    let id = if event.seq { c"0-*" } else { c"*" };
    let data = call.names(event.fields);
    let (ctx, stream) = (keys.ctx(), call.name(event.stream));
    // ! replicate, E give errors as replies, M refuse when memory is full.
    let reply = match maxlen {
        None => api!(RedisModule_Call(
            ctx,
            c"XADD".as_ptr(),
            c"!EMscv".as_ptr(),
            stream,
            id.as_ptr(),
            data.as_ptr(),
            data.len()
        )),
        Some(maxlen) => api!(RedisModule_Call(
            ctx,
            c"XADD".as_ptr(),
            c"!EMscclcv".as_ptr(),
            stream,
            c"MAXLEN".as_ptr(),
            c"~".as_ptr(),
            maxlen,
            id.as_ptr(),
            data.as_ptr(),
            data.len()
        )),
    };
    let entry = Entry {
        reply,
        stream: event.stream,
    };
    if entry.is_there() {
        call.begin();
        Some(entry)
    } else {
        call.reply_refusal(reply);
        None
    }
}

impl Entry {
    fn is_there(&self) -> bool {
        !self.reply.is_null()
            && api!(RedisModule_CallReplyType(self.reply)) == raw::REDISMODULE_REPLY_STRING as i32
    }

    /// Removes the entry again, here and on replicas, because the fact that it tells of has not changed. Its id stays
    /// used. Hooks may run meanwhile.
    pub fn remove(self, call: &Call, keys: &mut Keyspace) {
        let mut len = 0;
        let id = api!(RedisModule_CallReplyStringPtr(self.reply, &mut len));
        let reply = api!(RedisModule_Call(
            keys.ctx(),
            c"XDEL".as_ptr(),
            c"!sb".as_ptr(),
            call.name(self.stream),
            id,
            len
        ));
        if reply.is_null() {
            // Where a hook has put something else at the stream's key there is no entry to be removed, either.
            guard::log(
                c"warning",
                "countint: cannot XDEL the entry of a mark that a hook of another module has made void",
            );
        } else {
            api!(RedisModule_FreeCallReply(reply));
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.reply.is_null() {
            api!(RedisModule_FreeCallReply(self.reply));
        }
    }
}
