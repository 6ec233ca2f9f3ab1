//! Partitions and dead-letter streams that are damaged.

use super::report::{Finding, Remedy};
use countd::domain::error::StoreError;
use countd::domain::health::FailedPartition;
use countd::domain::keys::Keys;
use countd::domain::keys::Partition;
use countd::domain::progress::{Progress, Update};
use countd::log::inspect::{LogState, PartitionState, inspect};
use countd::redis::store::Store;
use std::collections::BTreeMap;

/// The number of partitions that are inspected at once. A script inspects as many on a server without cluster mode.
const PARTITIONS: usize = 128;

/// Damaged data.
pub struct Damage {
    /// The failed partitions, each with its remedy.
    pub partitions: Vec<(FailedPartition, Remedy)>,
    /// The problems of dead-letter streams, with the commands that repair them.
    pub dead_letters: BTreeMap<String, String>,
}

impl Damage {
    /// Whether nothing is damaged.
    pub fn is_none(&self) -> bool {
        self.partitions.is_empty() && self.dead_letters.is_empty()
    }

    /// A finding for each partition and each dead-letter stream.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let partitions = self.partitions.iter().map(|(failure, remedy)| {
            let (partition, reason) = (failure.partition, &failure.reason);
            Finding::problem(format!("partition {partition}: {reason}"), remedy.clone())
        });
        let dead_letters = self.dead_letters.iter().map(|(problem, command)| {
            Finding::problem(format!("dead letters: {problem}"), command.as_str())
        });
        partitions.chain(dead_letters).collect()
    }
}

/// Inspects all partitions and dead-letter streams.
///
/// # Errors
/// Redis failed.
pub async fn inspect_all(store: &Store, progress: &dyn Progress) -> Result<Damage, StoreError> {
    let all: Vec<Partition> = (0..store.keys().partitions()).collect();
    let mut states = BTreeMap::new();
    for part in all.chunks(PARTITIONS) {
        let inspection = inspect(store, part).await;
        if let Some(error) = inspection.error {
            return Err(error);
        }
        states.extend(inspection.states);
        let update = Update::new("inspecting", states.len() as u64, "partitions");
        progress.update(&update.of(all.len() as u64));
    }
    let keys = store.keys();
    let dead_letters = states.values().filter_map(|state| {
        let problem = state.dead.clone()?;
        Some((problem, set_aside(keys, &keys.dead(state.partition))))
    });
    let partitions = states.values().filter_map(|state| {
        let problems = state.problems();
        let failed = FailedPartition {
            partition: state.partition,
            reason: problems.join("; "),
        };
        (!problems.is_empty()).then(|| (failed, repair(keys, state)))
    });
    Ok(Damage {
        partitions: partitions.collect(),
        dead_letters: dead_letters.collect(),
    })
}

/// What repairs a failed partition: the remedy of its first problem.
pub(super) fn repair(keys: Keys, state: &PartitionState) -> Remedy {
    let has_other_type = |error: &str, key: &str| error.starts_with(&format!("{key} is not a "));
    let partition = state.partition;
    let (log, position) = (keys.log(partition), keys.position(partition));
    for (error, key) in [
        (state.end.as_ref().err(), log),
        (state.position.as_ref().err(), position),
    ] {
        if error.is_some_and(|error| has_other_type(error, &key)) {
            return Remedy::command(set_aside(keys, &key));
        }
    }
    match (state.log_state(), state.outbox.as_deref()) {
        (LogState::Failed(_) | LogState::Restarted(_), _) => Remedy::command(format!(
            "countd log reset {partition} --uncounted all|none|OFFSET --dry-run"
        ))
        .knowing(
            "only you know which entries were counted: choose, read what the command prints, and run it without --dry-run",
        ),
        (LogState::Disordered, _) => Remedy::command("countd consume").knowing(
            "a consumer renumbers the log within seconds, and nothing is lost: if one runs, this finding is gone soon",
        ),
        (LogState::Healthy(_), Some(error)) if !has_other_type(error, &keys.outbox(partition)) => {
            repair_outbox(keys, &keys.outbox(partition))
        }
        (LogState::Healthy(_), _) => Remedy::command(set_aside(keys, &keys.outbox(partition))),
    }
}

/// Removes foreign entries from an outbox, whose last ID must be that of its last regular entry.
fn repair_outbox(keys: Keys, outbox: &str) -> Remedy {
    let client = client(keys);
    let commands = [
        format!("{client} XREVRANGE {outbox} + - COUNT 10"),
        format!("{client} XDEL {outbox} FOREIGN_ID"),
        format!("{client} XSETID {outbox} LAST_REGULAR_ID"),
    ];
    Remedy::commands(
        commands.into(),
        "regular IDs are 0-NUMBER, below 0-9007199254740992. The first command prints the last ones; delete those that are foreign",
    )
}

/// Renames a key of a wrong type, which `countd log reset` refuses, so that nothing of it is lost.
fn set_aside(keys: Keys, key: &str) -> String {
    format!("{} RENAME {key} {key}:damaged", client(keys))
}

fn client(keys: Keys) -> &'static str {
    match keys.tagged() {
        true => "redis-cli -c",
        false => "redis-cli",
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use countd::domain::keys::PartitionHash;
    use countd::log::inspect::LogEnd;

    /// Partition 7 with this position and this last ID of its log.
    pub fn state(position: u64, last: (u64, u64)) -> PartitionState {
        PartitionState {
            partition: 7,
            stored: Some(position.to_string().into_bytes()),
            position: Ok(position),
            end: Ok(LogEnd {
                last,
                length: 2,
                entry: last,
            }),
            outbox: None,
            outbox_length: 0,
            dead: None,
            dead_length: 0,
        }
    }

    /// The first command that repairs a partition.
    fn first(keys: Keys, state: &PartitionState) -> String {
        let finding = Finding::problem("", repair(keys, state));
        let (commands, _) = finding.remedy();
        commands[0].to_owned()
    }

    #[test]
    fn keys_of_another_type_are_renamed_and_logs_are_reset() {
        let keys = Keys::new(8, false, PartitionHash::Murmur2);
        let of = |state: &PartitionState| first(keys, state);
        let reset = "countd log reset 7 --uncounted all|none|OFFSET --dry-run";
        assert_eq!(of(&state(9, (0, 3))), reset);
        // A consumer renumbers it.
        assert_eq!(of(&state(1, (5, 0))), "countd consume");
        let log = keys.log(7);
        let renamed = |key: &str| format!("redis-cli RENAME {key} {key}:damaged");
        let end = Err(format!("{log} is not a stream"));
        let found = of(&PartitionState {
            end,
            ..state(1, (0, 3))
        });
        assert_eq!(found, renamed(&log));
        let position = Err("field 7 is not an offset: \"x\"".to_owned());
        let found = of(&PartitionState {
            position,
            ..state(1, (0, 3))
        });
        assert_eq!(found, reset);
        let key = keys.position(7);
        let position = Err(format!("{key} is not a hash"));
        let found = of(&PartitionState {
            position,
            ..state(1, (0, 3))
        });
        assert_eq!(found, renamed(&key));
    }

    #[test]
    fn an_outbox_of_another_type_is_renamed_in_its_slot_and_foreign_entries_are_deleted() {
        let keys = Keys::new(8, true, PartitionHash::Murmur2);
        let key = keys.outbox(7);
        let with_outbox = |problem: String| PartitionState {
            outbox: Some(problem),
            ..state(4, (0, 3))
        };
        let found = first(keys, &with_outbox(format!("{key} is not a stream")));
        assert_eq!(found, format!("redis-cli -c RENAME {key} {key}:damaged"));
        let found = first(keys, &with_outbox(format!("{key} ends with a foreign ID")));
        assert_eq!(found, format!("redis-cli -c XREVRANGE {key} + - COUNT 10"));
    }
}
