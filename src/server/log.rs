//! The server's log.

use std::ffi::{CStr, CString};
use std::ptr;

use super::api::api;

/// Writes `message` to the server's log at `level` (`c"warning"`, `c"notice"`, `c"verbose"`).
pub fn log(level: &CStr, message: &str) {
    // A C string ends at the first NUL, and the text of a panic may contain one.
    let text = CString::new(message.replace('\0', " ")).unwrap_or_default();
    api!(RedisModule_Log(
        ptr::null_mut(),
        level.as_ptr(),
        c"%s".as_ptr(),
        text.as_ptr()
    ));
}
