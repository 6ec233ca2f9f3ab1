//! The section `countint` of `INFO`.

use std::ffi::{CStr, c_int};

use redis_module::raw;

use crate::api::api;
use crate::{guard, stats};

/// Registers the section.
pub fn register(ctx: *mut raw::RedisModuleCtx) {
    let callback: raw::RedisModuleInfoFunc = Some(info);
    api!(RedisModule_RegisterInfoFunc(ctx, callback));
}

extern "C" fn info(ctx: *mut raw::RedisModuleInfoCtx, _for_crash_report: c_int) {
    guard::harmless((), || fill(ctx));
}

fn fill(ctx: *mut raw::RedisModuleInfoCtx) {
    if api!(RedisModule_InfoAddSection(ctx, std::ptr::null())) != raw::REDISMODULE_OK as c_int {
        return; // the client asked for other sections
    }
    let field = |name: &CStr, value: u64| {
        api!(RedisModule_InfoAddFieldULongLong(ctx, name.as_ptr(), value));
    };
    let [objects, fields, bytes] = stats::COUNTINT.get();
    field(c"cint_objects", objects);
    field(c"cint_fields", fields);
    field(c"cint_bytes", bytes);
    let [objects, members, bytes] = stats::IDSET.get();
    field(c"rbm_objects", objects);
    field(c"rbm_members", members);
    field(c"rbm_bytes", bytes);
    let [objects, rows, bytes] = stats::COUNTTAB.get();
    field(c"ctab_objects", objects);
    field(c"ctab_rows", rows);
    field(c"ctab_bytes", bytes);
    field(c"saturations", stats::saturations());
    let [marks, unmarks, duplicate, partial] = stats::exactly_once();
    field(c"marks", marks);
    field(c"unmarks", unmarks);
    field(c"duplicate_applies", duplicate);
    field(c"partial_applies", partial);
    field(c"rejected_loads", stats::rejected_loads());
}
