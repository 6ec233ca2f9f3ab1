//! Reading keys of the server's own types, for the commands that turn them into ours.
//!
//! Some of it is commands of the server, called while the key is open: they only read a key that is there, which publishes
//! nothing.

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::panic::resume_unwind;

use redis_module::raw;

use crate::api::api;
use crate::key::Key;
use crate::{call, guard};

impl Key<'_> {
    /// Hands the bytes of the String that the key holds to `read`.
    ///
    /// They come from GET: the module API's direct access, which serves where an operator has taken GET away, would turn
    /// a String that the server keeps as an integer, or beside its object's head, into a larger one for good.
    pub fn string<R>(&self, read: impl FnOnce(&[u8]) -> R) -> R {
        let name = api!(RedisModule_GetKeyNameFromModuleKey(self.raw()));
        let reply = api!(RedisModule_Call(
            self.ctx(),
            c"GET".as_ptr(),
            c"s".as_ptr(),
            name
        ));
        let (mut ptr, mut len) = (std::ptr::null(), 0);
        if !reply.is_null() {
            ptr = api!(RedisModule_CallReplyStringPtr(reply, &mut len));
        }
        if ptr.is_null() {
            let mode = raw::REDISMODULE_READ as c_int;
            ptr = api!(RedisModule_StringDMA(self.raw(), &mut len, mode));
        }
        let result = if ptr.is_null() || len == 0 {
            read(&[])
        } else {
            // SAFETY: the reply's bytes, which live until it is freed below, or the value's own, which stay as they are while
            // the key is open and not written to.
            read(unsafe { std::slice::from_raw_parts(ptr.cast(), len) })
        };
        if !reply.is_null() {
            api!(RedisModule_FreeCallReply(reply));
        }
        result
    }

    /// How many elements the Hash, List, ... at the key has, or how many bytes the String.
    pub fn element_count(&self) -> usize {
        api!(RedisModule_ValueLength(self.raw()))
    }

    /// Reads one field of the Hash that the key holds and hands its bytes to `read`; None where there is no such field.
    pub fn hash_field<R>(
        &self,
        field: *mut raw::RedisModuleString,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let mut value: *mut raw::RedisModuleString = std::ptr::null_mut();
        let end: *mut u8 = std::ptr::null_mut();
        api!(RedisModule_HashGet(
            self.raw(),
            raw::REDISMODULE_HASH_NONE as c_int,
            field,
            &mut value,
            end
        ));
        if value.is_null() {
            return None;
        }
        // SAFETY: ours until it is freed below.
        let result = read(unsafe { call::bytes(value) });
        api!(RedisModule_FreeString(self.ctx(), value));
        Some(result)
    }

    /// Hands each element of the Set that the key holds to `visit`.
    pub fn for_each_element<F: FnMut(&[u8])>(&self, visit: F) {
        let mut scan = Scan { visit, panic: None };
        let cursor = api!(RedisModule_ScanCursorCreate());
        let state = (&raw mut scan).cast::<c_void>();
        let callback: raw::RedisModuleScanKeyCB = Some(element::<F>);
        while scan.panic.is_none()
            && api!(RedisModule_ScanKey(self.raw(), cursor, callback, state)) != 0
        {}
        api!(RedisModule_ScanCursorDestroy(cursor));
        if let Some(panic) = scan.panic {
            resume_unwind(panic);
        }
    }

    /// Whether any of these fields of the Hash that the key holds has a time to live of its own. Servers older than
    /// Redis 7.4 know no such thing, nor the command that tells it.
    pub fn any_field_expires(&self, fields: &[*mut raw::RedisModuleString]) -> bool {
        let name = api!(RedisModule_GetKeyNameFromModuleKey(self.raw()));
        let times = api!(RedisModule_Call(
            self.ctx(),
            c"HPEXPIRETIME".as_ptr(),
            c"sclv".as_ptr(),
            name,
            c"FIELDS".as_ptr(),
            fields.len() as i64,
            fields.as_ptr(),
            fields.len()
        ));
        if times.is_null() {
            return false;
        }
        let array = raw::REDISMODULE_REPLY_ARRAY as c_int;
        let len = match api!(RedisModule_CallReplyType(times)) {
            kind if kind == array => api!(RedisModule_CallReplyLength(times)),
            _ => 0,
        };
        // Negative where there is no time to live, or no such field.
        let expires = (0..len).any(|i| {
            let time = api!(RedisModule_CallReplyArrayElement(times, i));
            api!(RedisModule_CallReplyInteger(time)) >= 0
        });
        api!(RedisModule_FreeCallReply(times));
        expires
    }
}

/// What the callback of a scan works with.
struct Scan<F> {
    visit: F,
    /// That of `visit`, which must not unwind through the server.
    panic: Option<Box<dyn Any + Send>>,
}

unsafe extern "C" fn element<F: FnMut(&[u8])>(
    _key: *mut raw::RedisModuleKey,
    name: *mut raw::RedisModuleString,
    _value: *mut raw::RedisModuleString,
    scan: *mut c_void,
) {
    // SAFETY: `scan` is that of `for_each_element`, which does not touch it while the server scans.
    let Scan { visit, panic } = unsafe { &mut *scan.cast::<Scan<F>>() };
    // The server goes on to the end of its step, whatever happens here.
    if panic.is_none() {
        // SAFETY: the element lives until this returns.
        *panic = guard::catch(|| visit(unsafe { call::bytes(name) })).err();
    }
}
