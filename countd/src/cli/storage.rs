//! `countd storage`.

use crate::cli::args::StorageCommand;
use crate::cli::error::CommandError;
use countd::domain::config::{Config, USER};
use countd::maintenance::storage::{Migration, Options, Progress, Target};
use countd::redis::store::Store;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// The time between two lines of progress within a step.
const INTERVAL: Duration = Duration::from_secs(2);

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
        json,
    } = command;
    if etype.as_str() != USER && !config.entities.contains_key(&etype) {
        let problem = format!("there is no entity type {etype} in the configuration");
        return Err(CommandError::Unsuccessful(problem));
    }
    let options = Options {
        grace: Duration::from_secs(grace),
        skip_damaged,
    };
    let mut printer = Printer::new(json);
    let mut print = |progress: &Progress| printer.print(progress);
    let migration = Migration::new(store, Target::named(etype), options, &mut print);
    let report = migration.run().await?;
    let mut out = io::stdout().lock();
    if json {
        let report = serde_json::to_string(&report).unwrap_or_default();
        writeln!(out, "{report}")?;
        return Ok(());
    }
    for damage in &report.damaged {
        writeln!(out, "left: {}: {}", damage.key, damage.reason)?;
    }
    writeln!(
        out,
        "counters of {} are rows of tables: this run moved {} objects in {} passes, {} of them to rows that existed",
        report.target, report.moved, report.passes, report.merged
    )?;
    Ok(())
}

/// Prints progress on stderr: a line for each step, and more within long steps.
struct Printer {
    json: bool,
    step: String,
    last: Instant,
}

impl Printer {
    fn new(json: bool) -> Printer {
        Printer {
            json,
            step: String::new(),
            last: Instant::now(),
        }
    }

    fn print(&mut self, progress: &Progress) {
        if progress.step == self.step && self.last.elapsed() < INTERVAL {
            return;
        }
        self.step.clone_from(&progress.step);
        self.last = Instant::now();
        if self.json {
            eprintln!("{}", serde_json::to_string(progress).unwrap_or_default());
        } else {
            eprintln!(
                "{}: {} objects found, {} moved",
                progress.step, progress.scanned, progress.moved
            );
        }
    }
}
