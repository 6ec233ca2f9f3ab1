//! Waiting for a condition, with a deadline.

use crate::env::deadline;
use std::time::{Duration, Instant};

/// The shortest and the longest polling interval.
const SHORTEST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(10);

/// Polls `condition` until it holds.
///
/// # Panics
/// After 60 seconds (times [`slow`](crate::env::slow)), naming `what`.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let (start, limit) = (Instant::now(), deadline(60));
    while !condition() {
        let waited = start.elapsed();
        assert!(waited < limit, "gave up waiting until {what}");
        // Less often in a long wait: the polls of many tests at once would take the processors from what they wait for.
        std::thread::sleep((waited / 16).clamp(SHORTEST, LONGEST));
    }
}
