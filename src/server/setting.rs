//! Settings of the module: `CONFIG GET` and `CONFIG SET`.

use std::ffi::{CStr, c_char, c_int, c_longlong, c_void};
use std::ops::RangeInclusive;
use std::ptr;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use redis_module::{Context, raw};

use super::api::api;

/// Registers an integer setting, stored in `value`. False if the registration fails.
pub fn register_integer(
    ctx: &Context,
    name: &CStr,
    default: i64,
    range: RangeInclusive<i64>,
    value: &'static AtomicI64,
) -> bool {
    let getter: raw::RedisModuleConfigGetNumericFunc = Some(get);
    let setter: raw::RedisModuleConfigSetNumericFunc = Some(set);
    let status = api!(RedisModule_RegisterNumericConfig(
        ctx.get_raw(),
        name.as_ptr(),
        default,
        raw::REDISMODULE_CONFIG_DEFAULT,
        *range.start(),
        *range.end(),
        getter,
        setter,
        None,
        ptr::from_ref(value).cast_mut().cast()
    ));
    status == raw::REDISMODULE_OK as c_int
}

/// Applies the configuration file to the registered settings. False if a value is invalid.
pub fn load(ctx: &Context) -> bool {
    api!(RedisModule_LoadConfigs(ctx.get_raw())) == raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn get(_name: *const c_char, value: *mut c_void) -> c_longlong {
    // SAFETY: the static that `register_integer` passed.
    let value = unsafe { &*value.cast::<AtomicI64>() };
    value.load(Relaxed)
}

unsafe extern "C" fn set(
    _name: *const c_char,
    new: c_longlong,
    value: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: as in `get`.
    let value = unsafe { &*value.cast::<AtomicI64>() };
    value.store(new, Relaxed);
    raw::REDISMODULE_OK as c_int
}
