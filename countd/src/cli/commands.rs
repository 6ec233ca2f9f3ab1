//! The commands that do one thing and end.

use crate::cli::args::{DeadCommand, LogCommand, SchemaCommand, Which};
use countd::domain::config::{Config, Count};
use countd::domain::error::StoreError;
use countd::domain::error::{SchemaError, words};
use countd::domain::health::FailedPartition;
use countd::domain::ids::Name;
use countd::domain::keys::Partition;
use countd::log::dead_letters::{self, DeadLetters};
use countd::log::inspect::{Inspection, inspect};
use countd::log::reset::{ResetError, ResetPlan, Uncounted, plan, reset};
use countd::redis::script::CounterBackend;
use countd::redis::store::Store;
use countd::storage::schema::Schemas;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// It is about a schema.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// It is about the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is about a partition.
    #[error(transparent)]
    ResetError(#[from] ResetError),
    /// Nobody takes the output.
    #[error("cannot print: {0}")]
    Output(#[from] io::Error),
    /// Something was found that is not as it should be; it has been printed.
    #[error("{0}")]
    PartitionState(String),
}

/// `countd schema`.
///
/// # Errors
/// What it was asked could not be done.
pub async fn schema(store: Store, command: SchemaCommand) -> Result<(), Failed> {
    let schemas = Schemas::new(store);
    let mut out = io::stdout().lock();
    let (id, schema) = match command {
        SchemaCommand::Set { id, names } => {
            let schema = schemas.set(&id, names).await?;
            (id, schema)
        }
        SchemaCommand::Extend { id, names } => {
            let schema = schemas.extend(&id, &names).await?;
            (id, schema)
        }
        SchemaCommand::Get { id } => {
            let schema = schemas.refresh(&id).await?;
            (id, schema)
        }
        SchemaCommand::List => {
            for id in schemas.list().await? {
                let schema = schemas.refresh(&id).await?;
                writeln!(out, "{id}: {}", words(schema.names()))?;
            }
            return Ok(());
        }
    };
    writeln!(out, "{id}: {}", words(schema.names()))?;
    Ok(())
}

/// `countd dead`.
///
/// # Errors
/// What it was asked could not be done.
pub async fn dead(store: Store, command: DeadCommand) -> Result<(), Failed> {
    let mut letters = DeadLetters::new(store.clone());
    let mut out = io::stdout().lock();
    let (mut done, mut kept, mut wanted) = (0_u64, 0_u64, 0_usize);
    while let Some(letter) = letters.next().await? {
        let which: &Which = match &command {
            DeadCommand::List => {
                writeln!(
                    out,
                    "{}",
                    serde_json::to_string(&letter).unwrap_or_default()
                )?;
                continue;
            }
            DeadCommand::Retry(which) | DeadCommand::Drop(which) => which,
        };
        if !which.has(&letter.id) {
            continue;
        }
        wanted += 1;
        let is_done = match &command {
            DeadCommand::Retry(_) => dead_letters::retry(&store, &letter).await?,
            _ => dead_letters::drop_letter(&store, &letter).await?,
        };
        *(if is_done { &mut done } else { &mut kept }) += 1;
    }
    let which = match &command {
        DeadCommand::List => return Ok(()),
        DeadCommand::Retry(which) => {
            writeln!(out, "{done} retried, {kept} left")?;
            which
        }
        DeadCommand::Drop(which) => {
            writeln!(out, "{done} dropped, {kept} left")?;
            which
        }
    };
    if wanted < which.ids.len() {
        let missing = which.ids.len() - wanted;
        return Err(Failed::PartitionState(format!(
            "{missing} of the ids are no dead letters"
        )));
    }
    Ok(())
}

/// What is wrong with partitions, and with streams of dead letters.
async fn failed(store: &Store) -> Result<(Vec<FailedPartition>, BTreeSet<String>), StoreError> {
    let all: Vec<Partition> = (0..store.keys().partitions()).collect();
    let Inspection { states, error } = inspect(store, &all).await;
    if let Some(why) = error {
        return Err(why);
    }
    let dead = states.values().filter_map(|one| one.dead.clone()).collect();
    let failed = states.values().filter_map(|one| {
        let problems = one.problems();
        (!problems.is_empty()).then(|| FailedPartition {
            partition: one.partition,
            reason: problems.join("; "),
        })
    });
    Ok((failed.collect(), dead))
}

/// `countd log`.
///
/// # Errors
/// What it was asked could not be done.
pub async fn log(store: Store, command: LogCommand) -> Result<(), Failed> {
    let mut out = io::stdout().lock();
    match command {
        LogCommand::List => {
            for one in failed(&store).await?.0 {
                writeln!(out, "{}", serde_json::to_string(&one).unwrap_or_default())?;
            }
        }
        LogCommand::Reset {
            partitions,
            uncounted,
            dry_run,
        } => {
            let count = store.keys().partitions();
            if let Some(none) = partitions.iter().find(|one| **one >= count) {
                let problem = format!("there is no partition {none}: there are {count}");
                return Err(Failed::PartitionState(problem));
            }
            for partition in partitions {
                let plan = plan(&store, partition).await?;
                if dry_run {
                    writeln!(out, "{}", intent(&plan, uncounted))?;
                    continue;
                }
                let (position, counted) = reset(&store, &plan, uncounted).await?;
                writeln!(
                    out,
                    "partition {partition}: position {position}, {counted} entries to be counted"
                )?;
            }
        }
    }
    Ok(())
}

/// What a reset would do.
fn intent(plan: &ResetPlan, uncounted: Uncounted) -> String {
    let found = &plan.state;
    let length = found.end.as_ref().map_or(0, |end| end.length);
    let what = match uncounted {
        Uncounted::All => format!("all {length} entries of its log would be counted"),
        Uncounted::None => format!("all {length} entries of its log would be removed as counted"),
        Uncounted::From(offset) => format!(
            "of the {length} entries of its log those from 0-{offset} on would be counted, the others removed"
        ),
    };
    let was = found.stored.as_deref().map(String::from_utf8_lossy);
    let was = was.unwrap_or("none".into());
    let position = plan.position;
    format!(
        "partition {}: {what}; its position would be {position} (it is {was})",
        found.partition
    )
}

/// What there is to say of a store that does not use the module.
async fn plain(store: &Store) -> Result<&'static str, StoreError> {
    if store.has_module() {
        return Ok(
            "note: this data was begun without the module, so it is not used: counters are Strings, sets of ids are Sets",
        );
    }
    Ok(match store.has_library().await? {
        true => "note: counters are Strings, sets of ids are Sets; the fallback library is loaded",
        false => {
            "note: counters are Strings, sets of ids are Sets; the fallback library is not loaded, which countd does not need: \
             redis-cli -x FUNCTION LOAD REPLACE < fallback/countint.lua"
        }
    })
}

/// `countd check`: the configuration has been read, the server reached and the rights of its user checked; are the
/// schemas there?
///
/// # Errors
/// Something is missing.
pub async fn check(config: &Config, store: Store) -> Result<(), Failed> {
    let mut out = io::stdout().lock();
    let keys = store.keys();
    let mode = if keys.tagged() {
        "cluster mode"
    } else {
        "one server"
    };
    writeln!(out, "configuration: ok")?;
    writeln!(
        out,
        "server: ok, {mode}, {}, {} partitions",
        if store.has_module() {
            "the module is loaded"
        } else {
            "no module"
        },
        keys.partitions()
    )?;
    writeln!(out, "rights: ok")?;
    if store.backend() == CounterBackend::Strings {
        writeln!(out, "{}", plain(&store).await?)?;
    }
    let (failed, dead) = failed(&store).await?;
    for one in &failed {
        writeln!(out, "partition {}: {}", one.partition, one.reason)?;
    }
    for problem in &dead {
        writeln!(out, "dead letters: {problem}")?;
    }
    if failed.is_empty() && dead.is_empty() {
        writeln!(out, "partitions: ok")?;
    }
    let schemas = Schemas::new(store);
    let mut missing = 0;
    let ids: BTreeSet<&Name> = config.entities.values().collect();
    for id in ids {
        match schemas.refresh(id).await {
            Ok(schema) => writeln!(out, "schema {id}: {}", words(schema.names()))?,
            Err(SchemaError::Store(why)) => return Err(why.into()),
            Err(why) => {
                missing += 1;
                writeln!(out, "schema {id}: {why}")?;
            }
        }
    }
    for (etype, id) in &config.entities {
        let Some(schema) = schemas.cached(id) else {
            continue;
        };
        for (name, metric) in config.metrics.iter() {
            let has_counter = metric.count != Count::Never && metric.applies_to(etype);
            if has_counter && schema.index_of(name.as_str()).is_none() {
                writeln!(
                    out,
                    "note: {etype} has no {name}: schema {id} does not name it"
                )?;
            }
        }
    }
    if missing > 0 {
        return Err(Failed::PartitionState(format!(
            "{missing} schemas cannot be used: see `countd schema set --help`"
        )));
    }
    if !(failed.is_empty() && dead.is_empty()) {
        return Err(Failed::PartitionState(format!(
            "{} partitions have failed, {} streams of dead letters are damaged: see docs/countd/operations.md",
            failed.len(),
            dead.len()
        )));
    }
    Ok(())
}
