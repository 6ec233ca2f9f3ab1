//! The CountInt module: packed 40-bit counters (`CINT.*`), tables of them (`CTAB.*`) and exact sets of 64-bit ids
//! (`RBM.*`) for Redis and Valkey.
//!
//! This crate is glue: it translates between the server's module API and `countint_core`, where the data structures
//! are. `commands` is the table of what is registered; `docs/architecture.md` shows how a command travels.

mod alloc;
mod api;
mod call;
mod commands;
mod config;
mod entry;
mod error;
mod foreign;
mod found;
mod guard;
mod info;
mod key;
mod keyspace;
mod registry;
mod replicate;
mod scratch;
mod spec;
mod stats;
mod types;

use redis_module::{Context, RedisString, Status, raw};

use api::api;

/// Runs once, when the server loads the module.
fn init(ctx: &Context, args: &[RedisString]) -> Status {
    match guard::catch(|| register(ctx, args)) {
        Ok(Ok(())) => Status::Ok,
        Ok(Err(message)) => {
            guard::log(c"warning", &message);
            Status::Err
        }
        Err(_) => Status::Err, // the panic is in the log
    }
}

fn register(ctx: &Context, args: &[RedisString]) -> Result<(), String> {
    guard::install_panic_hook();
    let ctx = ctx.get_raw();
    // Changes are signalled exactly where something changed; a loader's short read is our error to answer, not a
    // reason for the server to exit; the values do not depend on one another, so a replica may load while it serves.
    let options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
        | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED
        | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD;
    api!(RedisModule_SetModuleOptions(ctx, options as i32));
    types::register(ctx)?;
    registry::register(ctx, commands::table())?;
    let args: Vec<_> = args.iter().map(|arg| arg.inner).collect();
    config::register(ctx, &args)?;
    info::register(ctx);
    Ok(())
}
