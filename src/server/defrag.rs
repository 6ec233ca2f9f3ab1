//! Active defragmentation of a value, in steps that the server can interrupt.

use std::ffi::{c_int, c_ulong};
use std::ptr::NonNull;

use redis_module::raw;

use super::alloc;
use super::api::api;

/// The defragmentation of one value.
pub struct Defrag(*mut raw::RedisModuleDefragCtx);

impl Defrag {
    /// Works with `ctx`.
    ///
    /// # Safety
    /// `ctx` is the handle that the server passed to the current `defrag` callback.
    pub unsafe fn new(ctx: *mut raw::RedisModuleDefragCtx) -> Self {
        Defrag(ctx)
    }

    /// Moves an allocation if the server requests it, and returns its new address.
    ///
    /// # Safety
    /// `ptr` is a live allocation of the global allocator with an alignment of at most 16, and nothing uses the old
    /// address afterwards.
    pub unsafe fn move_allocation(&self, ptr: NonNull<u8>) -> NonNull<u8> {
        let moved = api!(RedisModule_DefragAlloc(self.0, ptr.as_ptr().cast()));
        NonNull::new(moved.cast()).unwrap_or(ptr)
    }

    /// Runs `work`, which replaces parts of a value by copies. The copies are allocated where the server chooses.
    pub fn moving<R>(&self, work: impl FnOnce() -> R) -> R {
        // SAFETY: the handle is valid during the callback, which outlives `self`.
        unsafe { alloc::moving(self.0, work) }
    }

    /// Runs `step` from the cursor at which the last call stopped (0 for a new value) until it returns None or the
    /// server requests to continue later. `step` takes a cursor and returns the next one.
    ///
    /// Returns the result of a `defrag` callback: 0 when the value is done, 1 to be called again.
    pub fn run(&self, mut step: impl FnMut(c_ulong) -> Option<c_ulong>) -> c_int {
        let ok = raw::REDISMODULE_OK as c_int;
        let mut cursor = 0;
        if api!(RedisModule_DefragCursorGet(self.0, &mut cursor)) != ok {
            cursor = 0;
        }
        while let Some(next) = step(cursor) {
            cursor = next;
            if api!(RedisModule_DefragShouldStop(self.0)) != 0
                && api!(RedisModule_DefragCursorSet(self.0, cursor)) == ok
            {
                return 1;
            }
        }
        0
    }
}
