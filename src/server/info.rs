//! The module's section of `INFO`.

use std::ffi::{CStr, c_int};

use redis_module::{Context, raw};

use super::api::api;
use super::guard;

/// Returns the fields of the section.
pub trait InfoSource {
    /// The names and values, in order.
    fn fields() -> Vec<(&'static CStr, u64)>;
}

/// Registers the section.
pub fn register<S: InfoSource>(ctx: &Context) {
    let callback: raw::RedisModuleInfoFunc = Some(info::<S>);
    api!(RedisModule_RegisterInfoFunc(ctx.get_raw(), callback));
}

unsafe extern "C" fn info<S: InfoSource>(
    ctx: *mut raw::RedisModuleInfoCtx,
    _for_crash_report: c_int,
) {
    guard::or_fallback((), || {
        if api!(RedisModule_InfoAddSection(ctx, std::ptr::null())) != raw::REDISMODULE_OK as c_int {
            return; // the client asked for other sections
        }
        for (name, value) in S::fields() {
            api!(RedisModule_InfoAddFieldULongLong(ctx, name.as_ptr(), value));
        }
    });
}
