//! Repeats a step while Redis is unavailable.

use super::error::MigrationError;
use std::time::Duration;

/// How often a step is repeated.
pub(super) const RETRIES: u32 = 120;
pub(super) const RETRY_DELAY: Duration = Duration::from_millis(500);

/// The result of a step, repeated while it fails because Redis is unavailable.
pub(super) async fn retried<T>(
    mut step: impl AsyncFnMut() -> Result<T, MigrationError>,
) -> Result<T, MigrationError> {
    let mut failures = 0;
    loop {
        match step().await {
            Err(error) if error.is_transient() && failures < RETRIES => failures += 1,
            result => return result,
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}
