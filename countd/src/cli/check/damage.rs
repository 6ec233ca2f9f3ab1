//! Partitions and dead-letter streams that are damaged.

use countd::domain::error::StoreError;
use countd::domain::health::FailedPartition;
use countd::domain::keys::Partition;
use countd::log::inspect::{Inspection, inspect};
use countd::redis::store::Store;
use std::collections::BTreeSet;

/// Damaged data.
pub struct Damage {
    /// The failed partitions.
    pub partitions: Vec<FailedPartition>,
    /// The problems of dead-letter streams.
    pub dead_letters: BTreeSet<String>,
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
pub async fn inspect_all(store: &Store) -> Result<Damage, StoreError> {
    let all: Vec<Partition> = (0..store.keys().partitions()).collect();
    let Inspection { states, error } = inspect(store, &all).await;
    if let Some(error) = error {
        return Err(error);
    }
    let dead_letters = states
        .values()
        .filter_map(|state| state.dead.clone())
        .collect();
    let partitions = states.values().filter_map(|state| {
        let problems = state.problems();
        (!problems.is_empty()).then(|| FailedPartition {
            partition: state.partition,
            reason: problems.join("; "),
        })
    });
    Ok(Damage {
        partitions: partitions.collect(),
        dead_letters,
    })
}
