//! The settings: `countint.*` of CONFIG, also taken as arguments of `loadmodule`.

use std::ffi::{c_char, c_int, c_longlong, c_void};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use countint_core::countint::MAX_LEN;
use countint_core::decimal;
use redis_module::raw;

use crate::api::api;
use crate::call;

/// Fields of a counter object that a write without `LEN` creates, unless the operator says otherwise.
const DEFAULT_LEN: i64 = 5;

static LEN: AtomicI64 = AtomicI64::new(DEFAULT_LEN);

/// The length of objects created without `LEN`; None where the operator has turned that off (0).
pub fn default_len() -> Option<usize> {
    match LEN.load(Relaxed) {
        1.. => Some(LEN.load(Relaxed) as usize),
        _ => None,
    }
}

/// Registers the settings, the arguments of `loadmodule` (`default-len n`) being their defaults, and reads what the
/// configuration file says of them. The error is a text for the server's log.
pub fn register(
    ctx: *mut raw::RedisModuleCtx,
    args: &[*mut raw::RedisModuleString],
) -> Result<(), &'static str> {
    let default = parse_args(args)?;
    let getter: raw::RedisModuleConfigGetNumericFunc = Some(get);
    let setter: raw::RedisModuleConfigSetNumericFunc = Some(set);
    let status = api!(RedisModule_RegisterNumericConfig(
        ctx,
        c"default-len".as_ptr(),
        default,
        raw::REDISMODULE_CONFIG_DEFAULT,
        0,
        MAX_LEN as c_longlong,
        getter,
        setter,
        None,
        std::ptr::null_mut()
    ));
    if status != raw::REDISMODULE_OK as c_int
        || api!(RedisModule_LoadConfigs(ctx)) != raw::REDISMODULE_OK as c_int
    {
        return Err("countint: cannot register the setting countint.default-len");
    }
    Ok(())
}

/// Reads `default-len n` (the prefix `countint.` is allowed); the last one counts.
fn parse_args(args: &[*mut raw::RedisModuleString]) -> Result<c_longlong, &'static str> {
    const USAGE: &str = "countint: module arguments are: default-len <0..65535>";
    let mut len = DEFAULT_LEN;
    let mut pairs = args.chunks_exact(2);
    for pair in &mut pairs {
        // SAFETY: arguments of `loadmodule` live until the module is loaded.
        let [name, value] = [pair[0], pair[1]].map(|arg| unsafe { call::bytes(arg) });
        let name = name.to_ascii_lowercase();
        if name.strip_prefix(b"countint.").unwrap_or(&name) != b"default-len" {
            return Err(USAGE);
        }
        len = decimal::parse_i64(value)
            .filter(|n| (0..=MAX_LEN as i64).contains(n))
            .ok_or(USAGE)?;
    }
    if pairs.remainder().is_empty() {
        Ok(len)
    } else {
        Err(USAGE)
    }
}

extern "C" fn get(_name: *const c_char, _private: *mut c_void) -> c_longlong {
    LEN.load(Relaxed)
}

extern "C" fn set(
    _name: *const c_char,
    value: c_longlong,
    _private: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    LEN.store(value, Relaxed);
    raw::REDISMODULE_OK as c_int
}
