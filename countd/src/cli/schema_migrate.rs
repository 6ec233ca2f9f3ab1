//! `countd schema migrate`.

use crate::cli::args::SchemaMigrateCommand;
use crate::cli::error::CommandError;
use countd::domain::config::Config;
use countd::maintenance::reconcile::Context;
use countd::maintenance::schema::{Behind, Goal, Outcome, Pair, SchemaMigration, Status};
use countd::redis::store::Store;
use countd::storage::catalog::Catalog;
use serde::Serialize;
use std::io::{self, Write};
use std::sync::Arc;

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    /// A type can have the columns of another schema than the one that it names, so there can be several.
    migrations: &'a [Outcome],
}

/// Runs `countd schema migrate`.
///
/// # Errors
/// The arguments are invalid, the migration was refused or failed, or stdout cannot be written.
pub async fn run(
    config: Arc<Config>,
    store: Store,
    command: SchemaMigrateCommand,
) -> Result<(), CommandError> {
    let goal = match (command.percent, command.done, command.rollback) {
        (Some(percent), ..) => Goal::Percent(percent),
        (_, true, _) => Goal::Done,
        (.., true) => Goal::Rollback,
        _ => Goal::Complete,
    };
    let pair = Pair {
        from: command.from,
        to: command.to,
    };
    let title = format!("{} to {}", pair.from, pair.to);
    let map = command.map.into_iter().map(|(old, new)| (new, old));
    let context = Context {
        catalog: Catalog::new(config, store.clone()),
        store,
    };
    let (output, map) = (command.output, map.collect());
    let progress = output.progress();
    let migration = SchemaMigration::new(context, pair, map, command.sample, &progress);
    if command.status {
        let status = migration.status().await?;
        progress.finish();
        output.report(&status, |out| print_status(&title, &status, out))?;
        return Ok(());
    }
    let migrations = migration.run(goal).await?;
    progress.finish();
    let report = Report {
        migrations: &migrations,
    };
    output.report(&report, |out| print(&title, &migrations, out))?;
    Ok(())
}

fn print(title: &str, outcomes: &[Outcome], out: &mut impl Write) -> io::Result<()> {
    if outcomes.is_empty() {
        writeln!(out, "{title}: not begun")?;
    }
    for outcome in outcomes {
        let types: Vec<&str> = outcome.types.iter().map(|etype| etype.as_str()).collect();
        let Outcome {
            columns,
            stage,
            percent,
            view,
            ..
        } = outcome;
        let changes = if view.is_empty() { "" } else { ", " };
        writeln!(
            out,
            "{title}: {stage}, reads of {percent} % of the entities return the new schema ({}; columns of {columns}{changes}{view})",
            types.join(" ")
        )?;
    }
    Ok(())
}

fn print_status(title: &str, status: &Status, out: &mut impl Write) -> io::Result<()> {
    let Status {
        migrations,
        running,
        epoch,
        behind,
    } = status;
    print(title, migrations, out)?;
    match running {
        Some(pid) => writeln!(
            out,
            "a migration command with the process ID {pid} is running"
        )?,
        None => writeln!(out, "no migration command is running")?,
    }
    for next in migrations
        .iter()
        .filter_map(|outcome| outcome.next.as_ref())
    {
        writeln!(out, "next: {next}")?;
    }
    for Behind {
        process,
        epoch: followed,
    } in behind
    {
        writeln!(
            out,
            "process {process} follows epoch {followed} of countd:layout, not {epoch}"
        )?;
    }
    Ok(())
}
