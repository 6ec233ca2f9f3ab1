//! No panic leaves the module: what runs when one happens.
//!
//! A panic before anything has changed costs one command. After the first change it ends the process: a wrong count
//! that spreads to replicas and files is worse than a restart from the last good state.

use std::any::Any;
use std::ffi::{CStr, CString};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::api::api;

/// Writes `message` to the server's log at `level` (`c"warning"`, `c"notice"`, `c"verbose"`).
pub fn log(level: &CStr, message: &str) {
    // A NUL would end the C string early; none of our messages has one, but a panic's text may.
    let text = CString::new(message.replace('\0', " ")).unwrap_or_default();
    api!(RedisModule_Log(
        ptr::null_mut(),
        level.as_ptr(),
        c"%s".as_ptr(),
        text.as_ptr()
    ));
}

/// Sends the message and place of every panic to the server's log, where an operator looks.
pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(|info| {
        log(c"warning", &format!("countint: {info}"));
    }));
}

/// Ends the process because what is in memory can no longer be trusted.
pub fn abort(what: &str) -> ! {
    log(
        c"warning",
        &format!(
            "countint: a panic after the first change in {what}: aborting, so that no wrong count spreads"
        ),
    );
    std::process::abort()
}

/// Runs a callback that changes nothing when it panics: the panic is logged (by the hook) and `fallback` returned.
pub fn harmless<R>(fallback: R, work: impl FnOnce() -> R) -> R {
    catch(work).unwrap_or(fallback)
}

/// Runs a callback whose half-done work must not survive (freeing, saving in a child process, moving memory).
pub fn vital<R>(what: &str, work: impl FnOnce() -> R) -> R {
    catch(work).unwrap_or_else(|_| abort(what))
}

/// `catch_unwind` for work whose captured state is not looked at after a panic.
pub fn catch<R>(work: impl FnOnce() -> R) -> Result<R, Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(work))
}
