//! The native types: what the server calls to load, save, rewrite, measure, copy, move and free their values.

pub mod countint;
pub mod counttab;
pub mod idset;
mod io;

use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use redis_module::raw;

use crate::api::api;

/// The version of the table of callbacks that we fill in: Redis 7.0 knows it, and newer servers still take it.
const METHODS_VERSION: u64 = 4;

/// A native type as the server knows it.
pub struct Native {
    name: &'static CStr,
    encoding: c_int,
    handle: AtomicPtr<raw::RedisModuleType>,
}

impl Native {
    const fn new(name: &'static CStr, encoding: c_int) -> Self {
        Native {
            name,
            encoding,
            handle: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The server's handle, null before registration.
    #[inline]
    pub fn raw(&self) -> *mut raw::RedisModuleType {
        self.handle.load(Relaxed)
    }

    fn register(
        &self,
        ctx: *mut raw::RedisModuleCtx,
        mut methods: raw::RedisModuleTypeMethods,
    ) -> Result<(), &'static str> {
        methods.version = METHODS_VERSION;
        let handle = api!(RedisModule_CreateDataType(
            ctx,
            self.name.as_ptr(),
            self.encoding,
            &mut methods
        ));
        self.handle.store(handle, Relaxed);
        if handle.is_null() {
            Err("countint: the server refused a data type")
        } else {
            Ok(())
        }
    }
}

/// Registers the types. The error is a text for the server's log.
pub fn register(ctx: *mut raw::RedisModuleCtx) -> Result<(), &'static str> {
    countint::COUNTINT.register(ctx, countint::methods())?;
    idset::IDSET.register(ctx, idset::methods())?;
    counttab::COUNTTAB.register(ctx, counttab::methods())
}

/// Nothing outside a value refers to it, so its removal from the keyspace needs no work; `free` follows.
unsafe extern "C" fn unlink(_key: *mut raw::RedisModuleString, _value: *const std::ffi::c_void) {}

/// A table of callbacks with none filled in.
fn no_methods() -> raw::RedisModuleTypeMethods {
    raw::RedisModuleTypeMethods {
        version: 0,
        rdb_load: None,
        rdb_save: None,
        aof_rewrite: None,
        mem_usage: None,
        digest: None,
        free: None,
        aux_load: None,
        aux_save: None,
        aux_save_triggers: 0,
        free_effort: None,
        unlink: None,
        copy: None,
        defrag: None,
        mem_usage2: None,
        free_effort2: None,
        unlink2: None,
        copy2: None,
        aux_save2: None,
    }
}
