//! The bytes of the server's strings.

use std::ffi::c_char;
use std::slice;

use redis_module::raw;

use super::api::api;

/// The bytes of a string.
///
/// # Safety
/// The string is alive and unchanged during `'a`.
#[inline]
pub unsafe fn bytes<'a>(string: *mut raw::RedisModuleString) -> &'a [u8] {
    let mut len = 0;
    let ptr = api!(RedisModule_StringPtrLen(string, &mut len));
    // SAFETY: the string has `len` bytes at `ptr`; the caller promises the rest.
    unsafe { slice::from_raw_parts(ptr.cast::<u8>(), len) }
}

/// A string as NUL-terminated text.
///
/// # Safety
/// The string is alive. The result is valid for as long as it is.
pub(super) unsafe fn c_text(string: *mut raw::RedisModuleString) -> *const c_char {
    api!(RedisModule_StringPtrLen(string, std::ptr::null_mut()))
}
