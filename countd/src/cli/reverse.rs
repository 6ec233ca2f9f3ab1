//! `countd reverse`.

use crate::cli::args::ReverseCommand;
use crate::cli::error::CommandError;
use countd::domain::config::Config;
use countd::maintenance::reverse::Backfill;
use countd::redis::store::Store;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// The time between two lines of progress within a step.
const INTERVAL: Duration = Duration::from_secs(2);

/// Runs `countd reverse`.
///
/// # Errors
/// The metric is not configured, the backfill failed, or stdout cannot be written.
pub async fn run(
    config: &Config,
    store: Store,
    command: ReverseCommand,
) -> Result<(), CommandError> {
    let ReverseCommand::Backfill { metric, grace } = command;
    let Some(metric) = config.metrics.get(metric.as_str()) else {
        let problem = format!("there is no metric {metric} in the configuration");
        return Err(CommandError::Unsuccessful(problem));
    };
    let (mut last_step, mut last_time) = (String::new(), Instant::now());
    let mut print = |step: &str, facts: u64| {
        if step != last_step || last_time.elapsed() >= INTERVAL {
            eprintln!("{step}: {facts} facts");
            (last_step, last_time) = (step.to_owned(), Instant::now());
        }
    };
    let grace = Duration::from_secs(grace);
    let backfill = Backfill::new(store, config, metric, grace, &mut print)?;
    let facts = backfill.run().await?;
    let name = metric.0;
    writeln!(
        io::stdout(),
        "facts of {name} are kept for users: {facts} existing facts were read"
    )?;
    Ok(())
}
