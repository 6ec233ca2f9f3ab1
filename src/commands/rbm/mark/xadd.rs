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
pub fn append(call: &Call, keys: &mut Keyspace, event: &EventAt) -> Option<Entry> {
    let id = if event.seq { c"0-*" } else { c"*" };
    let data = call.names(event.fields);
    // ! replicate, E give errors as replies, M refuse when memory is full.
    let reply = api!(RedisModule_Call(
        keys.ctx(),
        c"XADD".as_ptr(),
        c"!EMscv".as_ptr(),
        call.name(event.stream),
        id.as_ptr(),
        data.as_ptr(),
        data.len()
    ));
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

    /// Trims the stream to about `maxlen` entries.
    ///
    /// Not as an option of XADD: an entry that is removed again must not have cost others their place, and XADD goes on with
    /// a stream that a hook of `xadd` may have removed.
    pub fn trim(&self, call: &Call, keys: &mut Keyspace, maxlen: i64) {
        let entries = keys.write(self.stream).element_count();
        if i64::try_from(entries).is_ok_and(|entries| entries <= maxlen) {
            return;
        }
        let reply = api!(RedisModule_Call(
            keys.ctx(),
            c"XTRIM".as_ptr(),
            c"!sccl".as_ptr(),
            call.name(self.stream),
            c"MAXLEN".as_ptr(),
            c"~".as_ptr(),
            maxlen
        ));
        if !reply.is_null() {
            api!(RedisModule_FreeCallReply(reply));
        }
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
