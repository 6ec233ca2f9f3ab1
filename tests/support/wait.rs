//! Waiting for a condition, with a deadline.

use crate::env::deadline;
use std::time::{Duration, Instant};

/// Polls `condition` until it holds.
///
/// # Panics
/// After 60 seconds (times [`slow`](crate::env::slow)), naming `what`.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let limit = Instant::now() + deadline(60);
    while !condition() {
        assert!(Instant::now() < limit, "gave up waiting until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
