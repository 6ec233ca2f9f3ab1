//! Runs a command: from the server's handler to the reply.

use std::ffi::c_int;

use redis_module::raw;

use super::call::{Call, Outcome};
use super::guard;
use super::keyspace::Keyspace;

/// Runs a command's code and replies with its error, if it returns one. Panics stop here.
///
/// # Safety
/// The arguments are those that the server passed to a command's handler.
pub unsafe fn dispatch(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
    run: fn(&Call, &mut Keyspace) -> Outcome,
) -> c_int {
    // SAFETY: the caller's promise.
    let call = unsafe { Call::new(ctx, argv, argc) };
    // SAFETY: this is the call's only `Keyspace`.
    let mut keyspace = unsafe { Keyspace::new(&call) };
    match guard::catch(|| run(&call, &mut keyspace)) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => call.reply_error(error),
        Err(_) if call.has_effects() => guard::abort("a command"),
        Err(_) => call.reply_error_text(c"ERR internal error"),
    }
    raw::REDISMODULE_OK as c_int
}
