//! `countd reconcile`.

use crate::cli::args::ReconcileCommand;
use crate::cli::error::CommandError;
use countd::domain::config::Config;
use countd::domain::event::CheckMode;
use countd::domain::ids::{Entity, Id, Name};
use countd::maintenance::reconcile::{Context, Report, Scope, reconcile};
use countd::redis::store::Store;
use countd::storage::catalog::Catalog;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time between two lines of progress within a step.
const INTERVAL: Duration = Duration::from_secs(2);

/// Counters differ still. The exit status is 3.
#[derive(Debug, thiserror::Error)]
#[error("{0} counters differ")]
pub struct Differences(pub u64);

/// Runs `countd reconcile`. Returns the number of counters that differ still.
///
/// # Errors
/// The arguments are invalid, the reconciliation failed, or stdout cannot be written.
pub async fn run(
    config: Arc<Config>,
    store: Store,
    command: ReconcileCommand,
) -> Result<u64, CommandError> {
    let scope = scope(&config, &command)?;
    let mode = match (command.dry_run, command.exact) {
        (true, _) => CheckMode::Report,
        (false, true) => CheckMode::Exact,
        (false, false) => CheckMode::Correct,
    };
    let catalog = Catalog::new(config, store.clone());
    let context = Context { store, catalog };
    let bar = io::stderr().is_terminal().then(new_bar);
    let (mut last_step, mut last_time) = (String::new(), Instant::now());
    let mut progress = |step: &str, entities: u64| match &bar {
        Some(bar) => {
            bar.set_message(step.to_owned());
            bar.set_position(entities);
        }
        None if !last_step.is_empty() && last_time.elapsed() < INTERVAL => {}
        None => {
            eprintln!("{step}: {entities} entities");
            (last_step, last_time) = (step.to_owned(), Instant::now());
        }
    };
    let report = reconcile(&context, &scope, mode, &mut progress).await?;
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let mut out = io::stdout().lock();
    match command.json {
        true => writeln!(
            out,
            "{}",
            serde_json::to_string(&report).unwrap_or_default()
        )?,
        false => print(&report, &mut out)?,
    }
    Ok(report.left())
}

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} {msg}: {human_pos} entities, {per_sec}");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}

fn scope(config: &Config, command: &ReconcileCommand) -> Result<Scope, CommandError> {
    if let Some(uid) = &command.user {
        let uid = Id::new(uid.as_str());
        let uid = uid.map_err(|error| CommandError::Unsuccessful(format!("--user: {error}")))?;
        return Ok(Scope::User(uid));
    }
    let [etype, eid] = command.entity.as_slice() else {
        return Ok(Scope::All);
    };
    let invalid = |what: &str| CommandError::Unsuccessful(format!("--entity: {what}"));
    let etype = Name::new(etype.as_str()).map_err(|error| invalid(&error.to_string()))?;
    let eid = Id::new(eid.as_str()).map_err(|error| invalid(&error.to_string()))?;
    match config.schema_of(&etype).flatten() {
        Some(_) => Ok(Scope::Entity(Entity { etype, eid })),
        None => Err(invalid(&format!("there is no entity type {etype}"))),
    }
}

/// Prints a table.
fn print(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let width = report.metrics.keys().map(|name| name.as_str().len()).max();
    let width = width.unwrap_or(0).max("metric".len());
    writeln!(
        out,
        "{:width$} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}",
        "metric", "compared", "differing", "corrected", "difference", "largest", "unchecked"
    )?;
    for (name, of) in &report.metrics {
        writeln!(
            out,
            "{:width$} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}",
            name.as_str(),
            of.checked,
            of.differing,
            of.corrected,
            of.difference,
            of.largest,
            of.unchecked
        )?;
    }
    Ok(())
}
