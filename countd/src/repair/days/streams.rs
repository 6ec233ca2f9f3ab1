//! Deletes the streams of past days that archiving leaves: `reads` or `daily` was removed, or the count of a day was lost.

use super::pass::KeyPass;
use crate::domain::config::Config;
use crate::domain::error::StoreError;
use crate::domain::event::now_ms;
use crate::redis::day_states::day_metrics;
use crate::redis::store::Store;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["UNLINK {read_stream}"];
/// The pattern of the keys of streams, for `SCAN`.
const PATTERN: &str = "x:*";

/// Deletes the streams of past days of all entities once.
pub(super) async fn delete_past(store: &Store, config: &Config) -> Result<(), StoreError> {
    let metrics = day_metrics(store, config).await?;
    if metrics.is_empty() {
        return Ok(());
    }
    let first_kept = config.days.calendar().first_kept(now_ms());
    let layout = store.keys();
    let mut pass = KeyPass::new(store, PATTERN)?;
    while let Some(keys) = pass.next_page().await? {
        let mut pipeline = redis::pipe();
        for key in &keys {
            let stream = layout.parse_read_stream(key);
            let is_past = stream.is_some_and(|(metric, date)| {
                date < first_kept && metrics.iter().any(|name| name.as_str() == metric)
            });
            if is_past {
                pipeline.cmd("UNLINK").arg(key);
            }
        }
        if pipeline.is_empty() {
            continue;
        }
        let deleted = pipeline.exec_async(&mut store.commands()).await;
        match deleted.map_err(StoreError::from) {
            Err(error @ StoreError::Unavailable(_)) => return Err(error),
            // The ACL of a user without metrics by day may not include streams.
            Err(error) => tracing::warn!(%error, "streams of past days cannot be deleted"),
            Ok(()) => {}
        }
    }
    Ok(())
}
