//! `countd schema`, `countd dead` and `countd sink --end`.

use crate::cli::args::{DeadCommand, SchemaCommand};
use crate::cli::error::CommandError;
use crate::cli::output::Output;
use crate::cli::subcommands::Selection;
use countd::domain::config::Config;
use countd::domain::error::join_names;
use countd::domain::ids::Name;
use countd::domain::progress::{Progress, Update};
use countd::log::dead_letters::{self, DeadLetters, StoredDeadLetter};
use countd::redis::layout::StoredLayout;
use countd::redis::store::Store;
use countd::repair;
use countd::storage::schema::{Schema, Schemas};
use serde::Serialize;
use serde_json::json;
use std::fmt::{self, Display, Formatter};
use std::io::{self, Write};

/// A schema as it is printed.
#[derive(Serialize)]
struct PrintedSchema {
    id: Name,
    counters: Vec<Name>,
}

impl PrintedSchema {
    fn of(id: Name, schema: &Schema) -> PrintedSchema {
        let counters = schema.own_names().to_vec();
        PrintedSchema { id, counters }
    }
}

impl Display for PrintedSchema {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.id, join_names(&self.counters))
    }
}

/// Runs `countd schema`.
///
/// # Errors
/// The schema is invalid, Redis failed, or stdout cannot be written.
pub async fn schema(store: Store, command: SchemaCommand) -> Result<(), CommandError> {
    let output = command.output();
    let schemas = Schemas::new(store);
    let printed = match command {
        SchemaCommand::Set { id, names, .. } => {
            let schema = schemas.set(&id, names).await?;
            PrintedSchema::of(id, &schema)
        }
        SchemaCommand::Extend { id, names, .. } => {
            let schema = schemas.extend(&id, &names).await?;
            schemas.append_to_columns(&id).await?;
            PrintedSchema::of(id, &schema)
        }
        SchemaCommand::Get { id, .. } => {
            let schema = schemas.refresh(&id).await?;
            PrintedSchema::of(id, &schema)
        }
        // A command of its own.
        SchemaCommand::Migrate(_) => return Ok(()),
        SchemaCommand::List { .. } => return list_schemas(&schemas, output).await,
    };
    output.report(&printed, |out| writeln!(out, "{printed}"))?;
    Ok(())
}

async fn list_schemas(schemas: &Schemas, output: Output) -> Result<(), CommandError> {
    let mut all = Vec::new();
    for id in schemas.list().await? {
        let schema = schemas.refresh(&id).await?;
        let printed = PrintedSchema::of(id, &schema);
        // As text also those before one that is damaged.
        if !output.json {
            writeln!(io::stdout(), "{printed}")?;
        }
        all.push(printed);
    }
    output.report(&json!({ "schemas": all }), |_| Ok(()))?;
    Ok(())
}

/// Runs `countd dead`.
///
/// # Errors
/// Redis failed, stdout cannot be written, a selected dead letter does not exist, or several partitions have one with a selected ID.
pub async fn dead(config: &Config, store: Store, command: DeadCommand) -> Result<(), CommandError> {
    let mut letters = DeadLetters::new(store.clone());
    let (selection, verb, output) = match &command {
        DeadCommand::List { .. } => {
            let mut out = io::stdout().lock();
            while let Some(dead_letter) = letters.next().await? {
                let json = serde_json::to_string(&dead_letter).unwrap_or_default();
                writeln!(out, "{json}")?;
            }
            return Ok(());
        }
        DeadCommand::Retry { selection, output } => (selection, "retried", *output),
        DeadCommand::Drop { selection, output } => (selection, "dropped", *output),
    };
    let progress = output.progress();
    // Consumers and other operators may add and remove some meanwhile.
    let total = match selection.all {
        true => dead_letters::count(&store).await?,
        false => selection.ids.len() as u64,
    };
    // Before the first is removed.
    let mut named = match selection.all {
        true => None,
        false => Some(named(&mut letters, selection).await?.into_iter()),
    };
    let (mut removed, mut left) = (0_usize, 0_usize);
    loop {
        let next = match &mut named {
            Some(named) => named.next(),
            None => letters.next().await?,
        };
        let Some(dead_letter) = next else {
            break;
        };
        let is_removed = match &command {
            DeadCommand::Retry { .. } => repair::retry(&store, config, &dead_letter).await?,
            _ => dead_letters::delete(&store, &dead_letter).await?,
        };
        *(if is_removed { &mut removed } else { &mut left }) += 1;
        let handled = (removed + left) as u64;
        let update = Update::new(verb, handled, "dead letters");
        progress.update(&update.of(total.max(handled)));
    }
    progress.finish();
    output.report(&json!({ verb: removed, "left": left }), |out| {
        writeln!(out, "{removed} {verb}, {left} left")
    })?;
    let selected = removed + left;
    if selected < selection.ids.len() {
        let missing = selection.ids.len() - selected;
        let of = selection.partition.map(|of| format!(" in partition {of}"));
        let of = of.unwrap_or_default();
        return Err(CommandError::Unsuccessful(format!(
            "{missing} of the IDs do not exist{of}"
        )));
    }
    Ok(())
}

/// The dead letters that a selection names.
///
/// # Errors
/// Redis failed, or an ID is that of dead letters of several partitions, and the selection does not say which.
async fn named(
    letters: &mut DeadLetters,
    selection: &Selection,
) -> Result<Vec<StoredDeadLetter>, CommandError> {
    let mut named: Vec<StoredDeadLetter> = Vec::new();
    while let Some(dead_letter) = letters.next().await? {
        if !selection.names(&dead_letter) {
            continue;
        }
        if let Some(other) = named.iter().find(|other| other.id == dead_letter.id) {
            return Err(CommandError::Unsuccessful(format!(
                "{} is the ID of dead letters of partitions {} and {}: choose one with --partition",
                dead_letter.id, other.partition, dead_letter.partition
            )));
        }
        named.push(dead_letter);
    }
    Ok(named)
}

/// Runs `countd sink --end`.
///
/// # Errors
/// Redis failed, or stdout cannot be written.
pub async fn end_sink(store: &Store, output: Output) -> Result<(), CommandError> {
    StoredLayout::record_sink(&mut store.commands(), &store.keys(), false)
        .await
        .map_err(|error| CommandError::Store(error.into()))?;
    output.report(&json!({ "ended": "sink" }), |out| {
        writeln!(out, "logs are not kept for a sink any more")
    })?;
    Ok(())
}
