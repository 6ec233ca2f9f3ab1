//! Partitions and dead-letter streams that are damaged.

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
    /// The failed partitions, each with the command that repairs it, if there is one.
    pub partitions: Vec<(FailedPartition, Option<String>)>,
    /// The problems of dead-letter streams, with the commands that repair them.
    pub dead_letters: BTreeMap<String, String>,
}

impl Damage {
    /// Whether nothing is damaged.
    pub fn is_none(&self) -> bool {
        self.partitions.is_empty() && self.dead_letters.is_empty()
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

/// The command that repairs a failed partition: that of its first problem. `None` if a consumer repairs it, or if the repair depends on its data.
fn repair(keys: Keys, state: &PartitionState) -> Option<String> {
    let has_other_type = |error: &str, key: &str| error.starts_with(&format!("{key} is not a "));
    let (log, position) = (keys.log(state.partition), keys.position(state.partition));
    for (error, key) in [
        (state.end.as_ref().err(), log),
        (state.position.as_ref().err(), position),
    ] {
        if error.is_some_and(|error| has_other_type(error, &key)) {
            return Some(set_aside(keys, &key));
        }
    }
    match state.log_state() {
        LogState::Failed(_) | LogState::Restarted(_) => {
            // Only the operator knows what has happened to the log.
            let partition = state.partition;
            Some(format!(
                "countd log reset {partition} --uncounted all|none|OFFSET --dry-run"
            ))
        }
        LogState::Disordered => None,
        LogState::Healthy(_) => {
            let outbox = keys.outbox(state.partition);
            let error = state.outbox.as_deref()?;
            has_other_type(error, &outbox).then(|| set_aside(keys, &outbox))
        }
    }
}

/// Renames a key of a wrong type, which `countd log reset` refuses, so that nothing of it is lost.
fn set_aside(keys: Keys, key: &str) -> String {
    let cluster = if keys.tagged() { " -c" } else { "" };
    format!("redis-cli{cluster} RENAME {key} {key}:damaged")
}

#[cfg(test)]
mod tests {
    use super::*;
    use countd::domain::keys::PartitionHash;
    use countd::log::inspect::LogEnd;

    fn state(position: u64, last: (u64, u64)) -> PartitionState {
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

    #[test]
    fn keys_of_another_type_are_renamed_and_logs_are_reset() {
        let keys = Keys::new(8, false, PartitionHash::Murmur2);
        let of = |state: &PartitionState| repair(keys, state);
        let reset = Some("countd log reset 7 --uncounted all|none|OFFSET --dry-run".to_owned());
        assert_eq!(of(&state(9, (0, 3))), reset);
        // A consumer renumbers it.
        assert_eq!(of(&state(1, (5, 0))), None);
        let log = keys.log(7);
        let renamed = |key: &str| Some(format!("redis-cli RENAME {key} {key}:damaged"));
        let end = Err(format!("{log} is not a stream"));
        assert_eq!(
            of(&PartitionState {
                end,
                ..state(1, (0, 3))
            }),
            renamed(&log)
        );
        let position = Err("field 7 is not an offset: \"x\"".to_owned());
        assert_eq!(
            of(&PartitionState {
                position,
                ..state(1, (0, 3))
            }),
            reset
        );
        let key = keys.position(7);
        let position = Err(format!("{key} is not a hash"));
        assert_eq!(
            of(&PartitionState {
                position,
                ..state(1, (0, 3))
            }),
            renamed(&key)
        );
    }

    #[test]
    fn an_outbox_of_another_type_is_renamed_in_its_slot() {
        let keys = Keys::new(8, true, PartitionHash::Murmur2);
        let key = keys.outbox(7);
        let outbox = Some(format!("{key} is not a stream"));
        let found = repair(
            keys,
            &PartitionState {
                outbox,
                ..state(4, (0, 3))
            },
        );
        assert_eq!(
            found,
            Some(format!("redis-cli -c RENAME {key} {key}:damaged"))
        );
        let outbox = Some(format!("{key} ends with a foreign ID"));
        assert_eq!(
            repair(
                keys,
                &PartitionState {
                    outbox,
                    ..state(4, (0, 3))
                }
            ),
            None
        );
    }
}
