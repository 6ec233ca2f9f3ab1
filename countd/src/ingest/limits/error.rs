//! The error of an exceeded limit.

use crate::domain::error::Problem;
use std::time::Duration;

/// Records a rejection in the metrics, and returns its error. A retry after `wait` succeeds.
pub fn limit_exceeded(scope: &'static str, wait: Duration) -> Problem {
    metrics::counter!("countd_limited_total", "scope" => scope).increment(1);
    // Rounded up, so that the retry is not early.
    let fraction = u64::from(wait.subsec_nanos() > 0);
    let retry_after = (wait.as_secs() + fraction).max(1);
    Problem::Limited { scope, retry_after }
}
