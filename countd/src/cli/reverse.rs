//! `countd reverse`.

use crate::cli::args::ReverseCommand;
use crate::cli::error::CommandError;
use countd::domain::config::Config;
use countd::maintenance::reverse::Backfill;
use countd::redis::store::Store;
use serde_json::json;
use std::io::Write;
use std::time::Duration;

/// Runs `countd reverse`.
///
/// # Errors
/// The metric is not configured, the backfill failed, or stdout cannot be written.
pub async fn run(
    config: &Config,
    store: Store,
    command: ReverseCommand,
) -> Result<(), CommandError> {
    let ReverseCommand::Backfill {
        metric,
        grace,
        output,
    } = command;
    let Some(metric) = config.metrics.get(metric.as_str()) else {
        let problem = format!("there is no metric {metric} in the configuration");
        return Err(CommandError::Unsuccessful(problem));
    };
    let progress = output.progress();
    let grace = Duration::from_secs(grace);
    let backfill = Backfill::new(store, config, metric, grace, &progress)?;
    let facts = backfill.run().await?;
    progress.finish();
    let name = metric.0;
    output.report(&json!({ "metric": name, "facts": facts }), |out| {
        writeln!(
            out,
            "facts of {name} are kept for users: {facts} existing facts were read"
        )
    })?;
    Ok(())
}
