//! Panics do not unwind out of the module.
//!
//! A panic before the first change fails one command. A panic after it aborts the process: a wrong count that spreads
//! to replicas and files is worse than a restart from the last good state.

use std::any::Any;
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::log::log;

/// Writes the message and location of every panic to the server's log.
pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(|info| {
        log(c"warning", &format!("countint: {info}"));
    }));
}

/// Aborts the process after a panic in `context`, because its memory can no longer be trusted.
pub fn abort(context: &str) -> ! {
    log(
        c"warning",
        &format!(
            "countint: a panic after the first change in {context}: aborting, so that no wrong count spreads"
        ),
    );
    std::process::abort()
}

/// Runs a callback that only reads. A panic is logged by the hook, and `fallback` is returned.
pub fn or_fallback<R>(fallback: R, work: impl FnOnce() -> R) -> R {
    catch(work).unwrap_or(fallback)
}

/// Runs a callback whose partial work must not survive: `action`, such as "saving", of a value of `data_type`. A panic
/// aborts the process.
pub fn or_abort<R>(action: &str, data_type: &CStr, work: impl FnOnce() -> R) -> R {
    catch(work).unwrap_or_else(|_| {
        let data_type = data_type.to_string_lossy();
        abort(&format!("{action} a {data_type}"))
    })
}

/// `catch_unwind` for work whose captured state is not used after a panic.
pub fn catch<R>(work: impl FnOnce() -> R) -> Result<R, Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(work))
}
