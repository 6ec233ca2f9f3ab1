//! `countd storage`.

use crate::cli::acl;
use crate::cli::args::StorageCommand;
use crate::cli::error::CommandError;
use countd::domain::config::{Config, USER};
use countd::maintenance::storage::{
    AdoptionOptions, AdoptionReport, AdoptionRun, Migration, MigrationError, Options, Recorder,
    Report, Target,
};
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
    match command {
        StorageCommand::Migrate {
            etype,
            grace,
            skip_damaged,
            output,
        } => {
            if etype.as_str() != USER && !config.entities.contains_key(&etype) {
                let problem = format!("there is no entity type {etype} in the configuration");
                return Err(CommandError::Unsuccessful(problem));
            }
            let progress = output.progress();
            let options = Options {
                grace: Duration::from_secs(grace),
                skip_damaged,
            };
            let recorder = Recorder::of_migration(&store, etype.as_str(), &progress);
            let migration = Migration::new(store, Target::named(etype), options, &recorder);
            let result = migration.run().await;
            let counts = result
                .as_ref()
                .map(|report| (report.passes, report.damaged.len() as u64));
            recorder.end(counts).await;
            progress.finish();
            let report = result?;
            output.report(&report, |out| print(&report, out))?;
        }
        StorageCommand::Adopt {
            grace,
            skip_damaged,
            skip_replicas,
            output,
        } => {
            // Without the module the adoption refuses itself.
            if store.has_module() {
                let allowed = acl::check_adoption(&store, config).await;
                allowed.map_err(MigrationError::from)?;
            }
            let progress = output.progress();
            let options = AdoptionOptions {
                grace: Duration::from_secs(grace),
                skip_damaged,
                skip_replicas,
            };
            let recorder = Recorder::of_adoption(&store, &progress);
            let adoption = AdoptionRun::new(store, options, &recorder);
            let result = adoption.run().await;
            let counts = result
                .as_ref()
                .map(|report| (report.passes, report.damaged.len() as u64));
            recorder.end(counts).await;
            progress.finish();
            let report = result?;
            output.report(&report, |out| print_adoption(&report, out))?;
        }
    }
    Ok(())
}

fn print_adoption(report: &AdoptionReport, out: &mut impl Write) -> io::Result<()> {
    for damage in &report.damaged {
        writeln!(out, "left: {}: {}", damage.key, damage.reason)?;
    }
    writeln!(
        out,
        "the data has the module's types: this run converted {} keys and moved {} members of others in {} passes",
        report.converted, report.moved, report.passes
    )
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
