//! Appending to a stream as part of a command: the server's own XADD, which replicates itself with the entry's id,
//! wakes blocked readers and publishes its event.

use std::ffi::c_int;

use redis_module::raw;

use super::layout::EventAt;
use crate::api::api;
use crate::call::Call;
use crate::error::Error;

/// Refuses a key that holds anything but a stream.
pub fn check_type(call: &Call, at: usize) -> Result<(), Error> {
    match call.read(at).kind() {
        raw::REDISMODULE_KEYTYPE_EMPTY | raw::REDISMODULE_KEYTYPE_STREAM => Ok(()),
        _ => Err(Error::WrongType),
    }
}

/// Appends the event. If the server refuses it (full memory, ids that are used up or must grow), its error becomes the
/// reply, nothing has changed, and the answer is false.
pub fn append(call: &Call, event: &EventAt, maxlen: Option<i64>) -> bool {
    let id = if event.seq { c"0-*" } else { c"*" };
    let data = call.names(event.fields);
    let (ctx, stream) = (call.ctx(), call.name(event.stream));
    // ! replicate, E give errors as replies, M refuse when memory is full.
    let reply = match maxlen {
        None => {
            let format = c"!EMscv";
            api!(RedisModule_Call(
                ctx,
                c"XADD".as_ptr(),
                format.as_ptr(),
                stream,
                id.as_ptr(),
                data.as_ptr(),
                data.len()
            ))
        }
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
    let appended = !reply.is_null()
        && api!(RedisModule_CallReplyType(reply)) == raw::REDISMODULE_REPLY_STRING as c_int;
    if appended {
        call.begin();
    } else {
        call.reply_refusal(reply);
    }
    if !reply.is_null() {
        api!(RedisModule_FreeCallReply(reply));
    }
    appended
}
