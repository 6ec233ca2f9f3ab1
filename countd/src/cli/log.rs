//! `countd log`.

use crate::cli::args::{LogCommand, TopicStart};
use crate::cli::check::inspect_all;
use crate::cli::error::CommandError;
use crate::cli::output::Output;
use countd::domain::config::Config;
use countd::domain::keys::Partition;
use countd::domain::progress::{Progress, Silent, Update};
use countd::log::inspect::inspect;
use countd::log::reset::{ResetPlan, Uncounted, plan, reset};
use countd::maintenance::topic::{Accepted, Start, accept};
use countd::redis::store::Store;
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Runs `countd log`.
///
/// # Errors
/// Redis failed, stdout cannot be written, or a partition does not exist or cannot be reset.
pub async fn run(config: &Config, store: Store, command: LogCommand) -> Result<(), CommandError> {
    match command {
        LogCommand::AcceptTopic {
            from,
            lose_uncounted,
            output,
        } => {
            let start = match from {
                TopicStart::Earliest => Start::Earliest,
                TopicStart::Latest => Start::Latest,
            };
            let accepted = accept(config, &store, start, lose_uncounted).await?;
            print_topic(&accepted, output)
        }
        LogCommand::List { .. } => list(&store).await,
        LogCommand::Reset {
            partitions,
            uncounted,
            dry_run,
            output,
        } => {
            check_partitions(&store, &partitions)?;
            let progress = output.progress();
            let mut done = Vec::new();
            let result = match dry_run {
                true => plan_all(&store, &partitions, &mut done).await,
                false => {
                    let handled = Handled::of(&store, &partitions, &progress).await;
                    reset_all((&store, &partitions), uncounted, handled, &mut done).await
                }
            };
            progress.finish();
            // Also if one of the partitions was not reset: those before it were.
            if !done.is_empty() {
                let report = json!({ "dry_run": dry_run, "partitions": done });
                output.report(&report, |out| {
                    let mut partitions = done.iter();
                    partitions.try_for_each(|one| writeln!(out, "{}", one.describe(uncounted)))
                })?;
            }
            result
        }
    }
}

fn print_topic(accepted: &Accepted, output: Output) -> Result<(), CommandError> {
    let Accepted { topic, is_changed } = accepted;
    let (name, partitions) = (&topic.name, topic.partitions);
    let report = json!({ "topic": name, "partitions": partitions, "changed": is_changed });
    output.report(&report, |out| match is_changed {
        true => writeln!(
            out,
            "the topic of this data is {name} with {partitions} partitions"
        ),
        false => writeln!(out, "it is the topic of this data"),
    })?;
    Ok(())
}

/// Prints the failed partitions, each as a JSON object.
async fn list(store: &Store) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    for (failure, _) in inspect_all(store, &Silent).await?.partitions {
        let json = serde_json::to_string(&failure).unwrap_or_default();
        writeln!(out, "{json}")?;
    }
    Ok(())
}

fn check_partitions(store: &Store, partitions: &[Partition]) -> Result<(), CommandError> {
    let count = store.keys().partitions();
    match partitions.iter().find(|partition| **partition >= count) {
        Some(unknown) => Err(CommandError::Unsuccessful(format!(
            "there is no partition {unknown}: partitions are 0 to {}",
            count - 1
        ))),
        None => Ok(()),
    }
}

/// What was done to a partition, or would be.
#[derive(Serialize)]
#[serde(untagged)]
enum ResetReport {
    Planned {
        partition: Partition,
        position: u64,
        former_position: Option<String>,
        /// The number of entries of the log.
        entries: u64,
    },
    Done {
        partition: Partition,
        position: u64,
        /// The number of entries that will be counted.
        uncounted: u64,
    },
}

impl ResetReport {
    fn planned(plan: &ResetPlan) -> ResetReport {
        ResetReport::Planned {
            partition: plan.state.partition,
            position: plan.position,
            former_position: plan.former_position(),
            entries: plan.state.entries(),
        }
    }

    /// Describes it as text.
    fn describe(&self, which: Uncounted) -> String {
        match self {
            ResetReport::Planned {
                partition,
                position,
                former_position,
                entries,
            } => {
                let effect = match which {
                    Uncounted::All => format!("all {entries} entries of its log would be counted"),
                    Uncounted::None => {
                        format!("all {entries} entries of its log would be deleted as counted")
                    }
                    Uncounted::From(offset) => format!(
                        "of the {entries} entries of its log, the entries from 0-{offset} on would be counted and all others deleted"
                    ),
                };
                let former = former_position.as_deref().unwrap_or("missing");
                format!(
                    "partition {partition}: {effect}; its position would be {position} (now: {former})"
                )
            }
            ResetReport::Done {
                partition,
                position,
                uncounted,
            } => format!(
                "partition {partition}: position {position}, {uncounted} entries to be counted"
            ),
        }
    }
}

/// The progress of `log reset`, in entries. The total is the length of all given logs at the start.
struct Handled<'a> {
    progress: &'a dyn Progress,
    sizes: BTreeMap<Partition, u64>,
    total: u64,
    /// Those of the partitions that are reset.
    ended: u64,
}

impl<'a> Handled<'a> {
    async fn of(
        store: &Store,
        partitions: &[Partition],
        progress: &'a dyn Progress,
    ) -> Handled<'a> {
        // Partitions that cannot be inspected are not reset either.
        let states = inspect(store, partitions).await.states;
        let sizes = states
            .iter()
            .map(|(partition, state)| (*partition, state.entries()));
        let sizes: BTreeMap<Partition, u64> = sizes.collect();
        Handled {
            progress,
            total: sizes.values().sum(),
            sizes,
            ended: 0,
        }
    }

    /// Shows that this many entries of a partition are left.
    fn show(&self, partition: Partition, left: u64) {
        let done = self.ended + self.size(partition).saturating_sub(left);
        let update = Update::new("resetting", done, "entries");
        self.progress.update(&update.of(self.total));
    }

    /// Adds a partition that is reset.
    fn end(&mut self, partition: Partition) {
        self.ended += self.size(partition);
    }

    fn size(&self, partition: Partition) -> u64 {
        self.sizes.get(&partition).copied().unwrap_or(0)
    }
}

/// Adds what would be done to each partition to `done`.
async fn plan_all(
    store: &Store,
    partitions: &[Partition],
    done: &mut Vec<ResetReport>,
) -> Result<(), CommandError> {
    for partition in partitions {
        let plan = plan(store, *partition).await?;
        done.push(ResetReport::planned(&plan));
    }
    Ok(())
}

/// Resets partitions, and adds each to `done`.
async fn reset_all(
    (store, partitions): (&Store, &[Partition]),
    uncounted: Uncounted,
    mut handled: Handled<'_>,
    done: &mut Vec<ResetReport>,
) -> Result<(), CommandError> {
    for partition in partitions.iter().copied() {
        let plan = plan(store, partition).await?;
        handled.show(partition, plan.state.entries());
        let on_left = |left| handled.show(partition, left);
        let (position, uncounted) = reset(store, &plan, uncounted, on_left).await?;
        handled.end(partition);
        done.push(ResetReport::Done {
            partition,
            position,
            uncounted,
        });
    }
    Ok(())
}
