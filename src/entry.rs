//! `RedisModule_OnLoad` and the global allocator, as the crate redis-module makes them.

#![allow(missing_docs, reason = "the functions that the macro makes have none")]

use redis_module::redis_module;

use crate::alloc::ServerAlloc;
use crate::init;

/// The version of Cargo.toml as `MODULE LIST` shows it: major * 10,000 + minor * 100 + patch.
const VERSION: i32 = number(env!("CARGO_PKG_VERSION_MAJOR")) * 10_000
    + number(env!("CARGO_PKG_VERSION_MINOR")) * 100
    + number(env!("CARGO_PKG_VERSION_PATCH"));

/// Parses a part of the version. Fails the build if it is not below 100.
const fn number(text: &str) -> i32 {
    match i32::from_str_radix(text, 10) {
        Ok(number) if number < 100 => number,
        _ => panic!("a part of the version is not a number below 100"),
    }
}

// No commands and types here: the macro's way of registering them needs functions that Redis 7.0 lacks, and costs an
// allocation per argument and reply. `init` registers them.
redis_module! {
    name: "countint",
    version: VERSION,
    allocator: (ServerAlloc, ServerAlloc),
    data_types: [],
    init: init,
    commands: [],
}
