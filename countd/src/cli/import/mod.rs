//! `countd import`.

mod authors;
mod common;
mod counts;
mod facts;

use super::error::CommandError;
use authors::AuthorsArgs;
use clap::Subcommand;
use countd::domain::config::Config;
use countd::domain::ids::Name;
use countd::maintenance::import::{Import, forget, run};
use countd::redis::store::Store;
use counts::CountsArgs;
use facts::FactsArgs;
use std::io::{self, Write};
use std::sync::Arc;

/// The commands on imports.
#[derive(Debug, Subcommand)]
pub enum ImportCommand {
    /// Import facts: which users performed a metric on which entities
    ///
    /// A file has the fields metric, etype, eid and uid, and optionally author and ts (milliseconds since 1970). Facts that exist are
    /// not changed. Counters and users' counters follow.
    Facts(FactsArgs),
    /// Import counts of repeatable metrics
    ///
    /// A file has the fields etype, eid and counts, an object of counts by metric; or a column per metric; or metric and count.
    Counts(CountsArgs),
    /// Import the authors of entities
    ///
    /// A file has the fields etype, eid and author. An entity that has another author moves, with its credit.
    Authors(AuthorsArgs),
    /// Delete the state of an import, so that its name can be used again; what it imported stays
    Forget {
        /// Name of the import
        job: Name,
    },
}

/// What a command does, with valid options.
pub enum Task {
    /// Runs an import.
    Run(Box<Import>),
    /// Deletes the state of an import.
    Forget(Name),
}

impl Task {
    /// Checks the options that depend on each other.
    ///
    /// # Errors
    /// An option is missing or cannot be combined.
    pub fn new(command: ImportCommand, config: &Config) -> Result<Task, clap::Error> {
        match command {
            ImportCommand::Facts(args) => Ok(Task::Run(Box::new(args.import(config)?))),
            ImportCommand::Counts(args) => Ok(Task::Run(Box::new(args.import(config)?))),
            ImportCommand::Authors(args) => Ok(Task::Run(Box::new(args.import(config)?))),
            ImportCommand::Forget { job } => Ok(Task::Forget(job)),
        }
    }

    /// Whether the task writes nothing.
    pub fn is_dry_run(&self) -> bool {
        matches!(self, Task::Run(import) if import.dry_run)
    }

    /// Runs the task.
    ///
    /// # Errors
    /// The import failed, there are differences, or stdout cannot be written.
    pub async fn run(self, config: Arc<Config>, store: Store) -> Result<(), CommandError> {
        let import = match self {
            Task::Run(import) => import,
            Task::Forget(name) => {
                return match forget(&store, &name).await? {
                    true => Ok(writeln!(io::stdout(), "import {name} is forgotten")?),
                    false => Err(CommandError::Unsuccessful(format!(
                        "there is no import {name}"
                    ))),
                };
            }
        };
        let print = |difference: &str| println!("{difference}");
        let summary = run(config, store, &import, print).await?;
        let (records, skipped) = (summary.records, summary.skipped);
        let mut out = io::stdout().lock();
        if import.dry_run {
            writeln!(
                out,
                "valid: {} records, invalid: {skipped}",
                records - skipped
            )?;
            return Ok(());
        }
        let changed = summary.changed;
        writeln!(
            out,
            "imported: {} records ({changed} changed something now), skipped: {skipped}",
            records - skipped
        )?;
        if import.verify.is_some() {
            writeln!(
                out,
                "verified: {} records, no differences",
                summary.verified
            )?;
        }
        Ok(())
    }
}
