//! `countd storage`.

use crate::cli::args::StorageCommand;
use crate::cli::error::CommandError;
use countd::domain::config::{Config, USER};
use countd::maintenance::storage::{Migration, Options, Report, Target};
use countd::redis::store::Store;
use std::io::{self, Write};
use std::time::Duration;

/// Runs `countd storage`.
///
/// # Errors
/// The type is not configured, the migration failed, or stdout cannot be written.
pub async fn run(
    config: &Config,
    store: Store,
    command: StorageCommand,
) -> Result<(), CommandError> {
    let StorageCommand::Migrate {
        etype,
        grace,
        skip_damaged,
        output,
    } = command;
    if etype.as_str() != USER && !config.entities.contains_key(&etype) {
        let problem = format!("there is no entity type {etype} in the configuration");
        return Err(CommandError::Unsuccessful(problem));
    }
    let options = Options {
        grace: Duration::from_secs(grace),
        skip_damaged,
    };
    let progress = output.progress();
    let migration = Migration::new(store, Target::named(etype), options, &progress);
    let report = migration.run().await?;
    progress.finish();
    output.report(&report, |out| print(&report, out))?;
    Ok(())
}

fn print(report: &Report, out: &mut impl Write) -> io::Result<()> {
    for damage in &report.damaged {
        writeln!(out, "left: {}: {}", damage.key, damage.reason)?;
    }
    writeln!(
        out,
        "counters of {} are rows of tables: this run moved {} objects in {} passes, {} of them to rows that existed",
        report.target, report.moved, report.passes, report.merged
    )
}
