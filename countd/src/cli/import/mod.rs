//! `countd import`.

mod authors;
mod common;
mod counts;
mod facts;

use super::error::CommandError;
use super::output::Output;
use authors::AuthorsArgs;
use clap::Subcommand;
use countd::domain::config::Config;
use countd::domain::ids::Name;
use countd::maintenance::import::{Import, Summary, forget, run};
use countd::redis::store::Store;
use counts::CountsArgs;
use facts::FactsArgs;
use serde::Serialize;
use serde_json::json;
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
        #[command(flatten)]
        output: Output,
    },
}

impl ImportCommand {
    /// How the command prints its report.
    pub fn output(&self) -> Output {
        match self {
            ImportCommand::Facts(args) => args.output(),
            ImportCommand::Counts(args) => args.output(),
            ImportCommand::Authors(args) => args.output,
            ImportCommand::Forget { output, .. } => *output,
        }
    }
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
            ImportCommand::Forget { job, .. } => Ok(Task::Forget(job)),
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
    pub async fn run(
        self,
        config: Arc<Config>,
        store: Store,
        output: Output,
    ) -> Result<(), CommandError> {
        match self {
            Task::Run(import) => run_import(config, store, &import, output).await,
            Task::Forget(name) => {
                if !forget(&store, &name).await? {
                    let problem = format!("there is no import {name}");
                    return Err(CommandError::Unsuccessful(problem));
                }
                output.report(&json!({ "forgotten": name }), |out| {
                    writeln!(out, "import {name} is forgotten")
                })?;
                Ok(())
            }
        }
    }
}

/// The report of an import.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    summary: Summary,
    /// The first differences, as texts.
    first_differences: Vec<String>,
}

async fn run_import(
    config: Arc<Config>,
    store: Store,
    import: &Import,
    output: Output,
) -> Result<(), CommandError> {
    let progress = output.progress();
    let mut first_differences = Vec::new();
    let add = |difference: &str| first_differences.push(difference.to_owned());
    let summary = run(config, store, import, &progress, add).await?;
    progress.finish();
    let report = Report {
        summary,
        first_differences,
    };
    output.report(&report, |out| print(import, &report, out))?;
    match summary.differences {
        0 => Ok(()),
        count => Err(CommandError::Unsuccessful(format!(
            "{count} differences between the source and countd"
        ))),
    }
}

fn print(import: &Import, report: &Report, out: &mut impl Write) -> io::Result<()> {
    let Summary {
        records,
        skipped,
        changed,
        verified,
        differences,
    } = report.summary;
    let valid = records - skipped;
    if import.dry_run {
        return writeln!(out, "valid: {valid} records, invalid: {skipped}");
    }
    for difference in &report.first_differences {
        writeln!(out, "{difference}")?;
    }
    writeln!(
        out,
        "imported: {valid} records ({changed} changed something now), skipped: {skipped}"
    )?;
    if import.verify.is_some() && differences == 0 {
        writeln!(out, "verified: {verified} records, no differences")?;
    }
    Ok(())
}
