//! `RedisModule_OnLoad` and the global allocator, as the crate redis-module makes them.

#![allow(missing_docs, reason = "the functions that the macro makes have none")]

use redis_module::redis_module;

use crate::alloc::ServerAlloc;
use crate::init;

/// Major * 10,000 + minor * 100 + patch, as `MODULE LIST` shows it.
const VERSION: i32 = 100;

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
