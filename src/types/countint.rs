//! `CountInt5`: the value behind a key is the object itself, one cell of memory; see `countint_core::countint`.

use std::ffi::{c_int, c_void};
use std::ptr;

use countint_core::countint::CountInt;
use redis_module::raw;

use super::io::{self, Loader, Rejected};
use super::{Native, no_methods};
use crate::api::api;
use crate::{alloc, guard, stats};

/// The encoding of RDB bodies that we write: one string, the fields. Older ones stay loadable for ever.
const ENCODING: c_int = 1;

/// The type.
pub static COUNTINT: Native = Native::new(c"CountInt5", ENCODING);

/// A value has come into the server's hands.
pub fn created(counters: &CountInt) {
    stats::COUNTINT.add(counters.fields().len() as u64, size(counters));
}

/// A value is about to be dropped.
pub fn freed(counters: &CountInt) {
    stats::COUNTINT.remove(counters.fields().len() as u64, size(counters));
}

/// The bytes that the allocator set aside for the object.
fn size(counters: &CountInt) -> usize {
    // SAFETY: the object is one live allocation with an alignment of 2.
    unsafe { alloc::allocated_size(counters.as_ptr()) }
}

/// The callbacks.
pub fn methods() -> raw::RedisModuleTypeMethods {
    raw::RedisModuleTypeMethods {
        rdb_load: Some(rdb_load),
        rdb_save: Some(rdb_save),
        aof_rewrite: Some(aof_rewrite),
        mem_usage: Some(mem_usage),
        digest: Some(digest),
        free: Some(free),
        free_effort: Some(free_effort),
        unlink: Some(super::unlink),
        copy: Some(copy),
        defrag: Some(defrag),
        ..no_methods()
    }
}

/// A value that the server holds, for as long as a callback runs, without taking it over.
fn borrowed(value: *const c_void) -> std::mem::ManuallyDrop<CountInt> {
    // SAFETY: the server passes what `into_raw` gave; ManuallyDrop leaves it to the server.
    std::mem::ManuallyDrop::new(unsafe { CountInt::from_raw(value.cast_mut().cast()) })
}

unsafe extern "C" fn rdb_load(rdb: *mut raw::RedisModuleIO, encoding: c_int) -> *mut c_void {
    let loader = Loader::new(rdb);
    match guard::harmless(Err(Rejected), || load(&loader, encoding)) {
        Ok(counters) => {
            created(&counters);
            counters.into_raw().cast()
        }
        Err(Rejected) => {
            loader.reject(COUNTINT.name);
            ptr::null_mut()
        }
    }
}

fn load(loader: &Loader, encoding: c_int) -> Result<CountInt, Rejected> {
    if encoding != ENCODING {
        return Err(Rejected);
    }
    CountInt::from_bytes(&loader.string()?).map_err(|_| Rejected)
}

unsafe extern "C" fn rdb_save(rdb: *mut raw::RedisModuleIO, value: *mut c_void) {
    guard::vital("saving a CountInt", || {
        io::save_string(rdb, borrowed(value).fields().as_bytes())
    });
}

unsafe extern "C" fn aof_rewrite(
    aof: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    value: *mut c_void,
) {
    guard::vital("rewriting a CountInt", || {
        io::emit(
            aof,
            c"CINT.IMPORT",
            key,
            borrowed(value).fields().as_bytes(),
        );
    });
}

unsafe extern "C" fn mem_usage(value: *const c_void) -> usize {
    guard::harmless(0, || size(&borrowed(value)))
}

unsafe extern "C" fn digest(digest: *mut raw::RedisModuleDigest, value: *mut c_void) {
    guard::harmless((), || {
        io::digest_element(digest, borrowed(value).fields().as_bytes())
    });
}

unsafe extern "C" fn free(value: *mut c_void) {
    guard::vital("freeing a CountInt", || {
        // SAFETY: the server gives the value up.
        let counters = unsafe { CountInt::from_raw(value.cast()) };
        freed(&counters);
    });
}

unsafe extern "C" fn free_effort(
    _key: *mut raw::RedisModuleString,
    _value: *const c_void,
) -> usize {
    1
}

unsafe extern "C" fn copy(
    _from: *mut raw::RedisModuleString,
    _to: *mut raw::RedisModuleString,
    value: *const c_void,
) -> *mut c_void {
    guard::harmless(ptr::null_mut(), || {
        match CountInt::from_bytes(borrowed(value).fields().as_bytes()) {
            Ok(counters) => {
                created(&counters);
                counters.into_raw().cast()
            }
            Err(_) => ptr::null_mut(),
        }
    })
}

unsafe extern "C" fn defrag(
    ctx: *mut raw::RedisModuleDefragCtx,
    _key: *mut raw::RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    guard::vital("moving a CountInt", || {
        // SAFETY: the server passes the place where it keeps the pointer to our one allocation.
        let place = unsafe { &mut *value };
        let moved = api!(RedisModule_DefragAlloc(ctx, *place));
        if !moved.is_null() {
            *place = moved;
        }
        io::DONE
    })
}
