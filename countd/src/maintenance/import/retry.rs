//! Retries while Redis is unavailable. All steps of an import can be repeated.

use super::error::ImportError;
use std::time::Duration;

const RETRIES: u32 = 60;
const DELAY: Duration = Duration::from_millis(500);

/// Repeats a step while Redis is unavailable, for up to half a minute. `note` gets the error of the first attempt.
///
/// # Errors
/// The error of the last attempt.
pub async fn retry<T, F: Future<Output = Result<T, ImportError>>>(
    note: impl Fn(&str),
    mut step: impl FnMut() -> F,
) -> Result<T, ImportError> {
    let mut attempt = 0;
    loop {
        match step().await {
            Err(error) if error.is_transient() && attempt < RETRIES => {
                if attempt == 0 {
                    note(&format!("retrying: {error}"));
                }
                attempt += 1;
                tokio::time::sleep(DELAY).await;
            }
            result => return result,
        }
    }
}
