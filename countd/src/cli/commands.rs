//! `countd schema`, `countd dead`, `countd log` and `countd sink --end`.

use crate::cli::args::{DeadCommand, LogCommand, SchemaCommand, TopicStart};
use crate::cli::check::inspect_all;
use crate::cli::error::CommandError;
use countd::domain::config::Config;
use countd::domain::error::join_names;
use countd::domain::progress::{Progress, Silent, Update};
use countd::log::dead_letters::{self, DeadLetters};
use countd::log::reset::{ResetPlan, Uncounted, plan, reset};
use countd::maintenance::topic::{Start, accept};
use countd::redis::layout::StoredLayout;
use countd::redis::store::Store;
use countd::repair;
use countd::storage::schema::Schemas;
use serde_json::json;
use std::io::{self, Write};

/// Runs `countd schema`.
///
/// # Errors
/// The schema is invalid, Redis failed, or stdout cannot be written.
pub async fn schema(store: Store, command: SchemaCommand) -> Result<(), CommandError> {
    let schemas = Schemas::new(store);
    let mut out = io::stdout().lock();
    let (id, schema) = match command {
        SchemaCommand::Set { id, names } => {
            let schema = schemas.set(&id, names).await?;
            (id, schema)
        }
        SchemaCommand::Extend { id, names } => {
            let schema = schemas.extend(&id, &names).await?;
            schemas.append_to_columns(&id).await?;
            (id, schema)
        }
        SchemaCommand::Get { id } => {
            let schema = schemas.refresh(&id).await?;
            (id, schema)
        }
        // A command of its own.
        SchemaCommand::Migrate(_) => return Ok(()),
        SchemaCommand::List => {
            for id in schemas.list().await? {
                let schema = schemas.refresh(&id).await?;
                writeln!(out, "{id}: {}", join_names(schema.own_names()))?;
            }
            return Ok(());
        }
    };
    writeln!(out, "{id}: {}", join_names(schema.own_names()))?;
    Ok(())
}

/// Runs `countd dead`.
///
/// # Errors
/// Redis failed, stdout cannot be written, or a selected dead letter does not exist.
pub async fn dead(config: &Config, store: Store, command: DeadCommand) -> Result<(), CommandError> {
    let mut letters = DeadLetters::new(store.clone());
    let (selection, verb, output) = match &command {
        DeadCommand::List => {
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
    let (mut removed, mut left) = (0_usize, 0_usize);
    while let Some(dead_letter) = letters.next().await? {
        if !selection.includes(&dead_letter.id) {
            continue;
        }
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
        return Err(CommandError::Unsuccessful(format!(
            "{missing} of the IDs do not exist"
        )));
    }
    Ok(())
}

/// Runs `countd sink --end`.
///
/// # Errors
/// Redis failed, or stdout cannot be written.
pub async fn end_sink(store: &Store) -> Result<(), CommandError> {
    StoredLayout::record_sink(&mut store.commands(), &store.keys(), false)
        .await
        .map_err(|error| CommandError::Store(error.into()))?;
    writeln!(io::stdout(), "logs are not kept for a sink any more")?;
    Ok(())
}

/// Runs `countd log`.
///
/// # Errors
/// Redis failed, stdout cannot be written, or a partition does not exist or cannot be reset.
pub async fn log(config: &Config, store: Store, command: LogCommand) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    match command {
        LogCommand::AcceptTopic {
            from,
            lose_uncounted,
        } => {
            let start = match from {
                TopicStart::Earliest => Start::Earliest,
                TopicStart::Latest => Start::Latest,
            };
            match accept(config, &store, start, lose_uncounted).await? {
                Some(topic) => writeln!(
                    out,
                    "the topic of this data is {} with {} partitions",
                    topic.name, topic.partitions
                )?,
                None => writeln!(out, "it is the topic of this data")?,
            }
        }
        LogCommand::List => {
            for (failure, _) in inspect_all(&store, &Silent).await?.partitions {
                let json = serde_json::to_string(&failure).unwrap_or_default();
                writeln!(out, "{json}")?;
            }
        }
        LogCommand::Reset {
            partitions,
            uncounted,
            dry_run,
        } => {
            let count = store.keys().partitions();
            if let Some(unknown) = partitions.iter().find(|partition| **partition >= count) {
                let problem = format!(
                    "there is no partition {unknown}: partitions are 0 to {}",
                    count - 1
                );
                return Err(CommandError::Unsuccessful(problem));
            }
            for partition in partitions {
                let plan = plan(&store, partition).await?;
                if dry_run {
                    writeln!(out, "{}", describe(&plan, uncounted))?;
                    continue;
                }
                let (position, uncounted) = reset(&store, &plan, uncounted).await?;
                writeln!(
                    out,
                    "partition {partition}: position {position}, {uncounted} entries to be counted"
                )?;
            }
        }
    }
    Ok(())
}

/// Describes the effect of a planned reset.
fn describe(plan: &ResetPlan, uncounted: Uncounted) -> String {
    let state = &plan.state;
    let length = state.end.as_ref().map_or(0, |end| end.length);
    let effect = match uncounted {
        Uncounted::All => format!("all {length} entries of its log would be counted"),
        Uncounted::None => format!("all {length} entries of its log would be deleted as counted"),
        Uncounted::From(offset) => format!(
            "of the {length} entries of its log, the entries from 0-{offset} on would be counted and all others deleted"
        ),
    };
    let old = state.stored.as_deref().map(String::from_utf8_lossy);
    let old = old.unwrap_or("missing".into());
    let new = plan.position;
    format!(
        "partition {}: {effect}; its position would be {new} (now: {old})",
        state.partition
    )
}
