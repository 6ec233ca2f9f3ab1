//! Reads values of the server's built-in types.
//!
//! Some functions call commands of the server while the key is open. These only read an existing key, which publishes
//! no event.

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::panic::resume_unwind;

use redis_module::raw;

use super::api::api;
use super::call::Call;
use super::key::Key;
use super::{guard, string};

impl Key<'_> {
    /// Passes the bytes of the String that the key holds to `read`.
    ///
    /// They are read with GET. The module API's direct access, used only if GET is disabled, would change an integer or
    /// embedded encoding into a larger one for good.
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
            // SAFETY: the bytes of the reply, which is freed below, or of the value, which does not change while the
            // key is open.
            read(unsafe { std::slice::from_raw_parts(ptr.cast(), len) })
        };
        if !reply.is_null() {
            api!(RedisModule_FreeCallReply(reply));
        }
        result
    }

    /// The number of elements of the Hash, Set, Stream, ... at the key, or of bytes of the String.
    pub fn element_count(&self) -> usize {
        api!(RedisModule_ValueLength(self.raw()))
    }

    /// Passes the bytes of a field of the Hash that the key holds to `read`; None if the field does not exist. Argument
    /// `field` of the call is its name.
    pub fn hash_field<R>(
        &self,
        call: &Call,
        field: usize,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let mut value: *mut raw::RedisModuleString = std::ptr::null_mut();
        let end: *mut u8 = std::ptr::null_mut();
        api!(RedisModule_HashGet(
            self.raw(),
            raw::REDISMODULE_HASH_NONE as c_int,
            call.handle(field),
            &mut value,
            end
        ));
        if value.is_null() {
            return None;
        }
        // SAFETY: the module owns the string until it is freed below.
        let result = read(unsafe { string::bytes(value) });
        api!(RedisModule_FreeString(self.ctx(), value));
        Some(result)
    }

    /// Passes each element of the Set that the key holds to `visit`.
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

    /// Whether any of the Hash fields named by the arguments from `first` on has a TTL. Servers older than Redis 7.4
    /// have neither field TTLs nor the command that reads them.
    pub fn any_field_expires(&self, call: &Call, first: usize) -> bool {
        let fields = call.handles(first);
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
        // Negative if the field has no TTL or does not exist.
        let expires = (0..len).any(|i| {
            let time = api!(RedisModule_CallReplyArrayElement(times, i));
            api!(RedisModule_CallReplyInteger(time)) >= 0
        });
        api!(RedisModule_FreeCallReply(times));
        expires
    }
}

/// The state of the callback of a scan.
struct Scan<F> {
    visit: F,
    /// A panic of `visit`, which must not unwind through the server.
    panic: Option<Box<dyn Any + Send>>,
}

unsafe extern "C" fn element<F: FnMut(&[u8])>(
    _key: *mut raw::RedisModuleKey,
    name: *mut raw::RedisModuleString,
    _value: *mut raw::RedisModuleString,
    scan: *mut c_void,
) {
    // SAFETY: `scan` is the state in `for_each_element`, which does not use it while the server scans.
    let Scan { visit, panic } = unsafe { &mut *scan.cast::<Scan<F>>() };
    // The server calls back for the rest of its step even after a panic.
    if panic.is_none() {
        // SAFETY: the element lives until this returns.
        *panic = guard::catch(|| visit(unsafe { string::bytes(name) })).err();
    }
}
