//! `countd reconcile`.

use crate::cli::args::ReconcileCommand;
use crate::cli::error::CommandError;
use countd::domain::config::Config;
use countd::domain::event::CheckMode;
use countd::domain::ids::{Entity, Id, Name};
use countd::maintenance::reconcile::{Context, Report, Scope, reconcile};
use countd::redis::store::Store;
use countd::storage::catalog::Catalog;
use std::io::{self, Write};
use std::sync::Arc;

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
    let progress = command.output.progress();
    let report = reconcile(&context, &scope, mode, &progress).await?;
    progress.finish();
    command.output.report(&report, |out| print(&report, out))?;
    Ok(report.left())
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

#[cfg(test)]
mod tests {
    use super::*;
    use countd::maintenance::reconcile::MetricReport;

    #[test]
    fn a_table_has_a_row_for_each_metric() {
        let mut report = Report::default();
        for (name, of) in [
            (
                "like",
                MetricReport {
                    checked: 1_000_000,
                    differing: 3,
                    corrected: 2,
                    difference: 1_004,
                    largest: 1_000,
                    unchecked: 1,
                },
            ),
            ("a-long-name", MetricReport::default()),
        ] {
            let name = Name::new(name).expect("a name");
            report.metrics.insert(name, of);
        }
        let mut table = Vec::new();
        print(&report, &mut table).expect("written");
        let expected = "\
metric          compared    differing    corrected   difference      largest    unchecked
a-long-name            0            0            0            0            0            0
like             1000000            3            2         1004         1000            1
";
        assert_eq!(String::from_utf8(table).expect("a text"), expected);
    }
}
