//! Whether counters can be compared: all processes and all uncounted events change counters of facts, and counts by day, in the same
//! steps.
//!
//! If a process counts a fact at once and another one leaves it to the consumer, or one counts by day and another one does not, no
//! comparison is exact. A process therefore records in the layout that settings differ, before it acts. When all processes have the same
//! settings again, and every event of before is counted, the settings are recorded.

use crate::domain::config::Config;
use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use crate::log::inspect::inspect;
use crate::redis::processes::live_processes;
use crate::redis::store::Store;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The interval between two looks at the positions.
const POLL: Duration = Duration::from_millis(250);

/// Whether counters can be compared by the settings of this process. If only uncounted events are in the way, waits for them.
///
/// # Errors
/// The store is unavailable.
pub async fn settle(
    store: &Store,
    config: &Config,
    patience: Duration,
) -> Result<bool, StoreError> {
    let own = config.counting();
    if store.layout().counting == own {
        return Ok(true);
    }
    if !agree(store, &own).await? {
        return Ok(false);
    }
    let started = Instant::now();
    let mut ends: Option<BTreeMap<Partition, u64>> = None;
    loop {
        let left = uncounted(store, ends.as_ref()).await?;
        if left.is_empty() {
            break;
        }
        if started.elapsed() >= patience {
            return Ok(false);
        }
        // The ends of now: later events have the settings on which all processes agree.
        ends = Some(match ends {
            None => left,
            Some(ends) => ends
                .into_iter()
                .filter(|(partition, _)| left.contains_key(partition))
                .collect(),
        });
        tokio::time::sleep(POLL).await;
    }
    if !agree(store, &own).await? {
        return Ok(false);
    }
    let recorded = store.record_counting(&own).await;
    recorded.map_err(|error| StoreError::Unexpected(error.to_string()))?;
    Ok(true)
}

/// The live processes that change counters of facts with other settings than `config`: the process ID, and a random number.
///
/// # Errors
/// The store is unavailable.
pub async fn other_processes(
    store: &Store,
    config: &Config,
) -> Result<BTreeSet<String>, StoreError> {
    let own = config.counting();
    let live = live_processes(store).await?;
    let others = live.iter().filter(|process| {
        let counting = process.counting();
        counting.is_some_and(|counting| counting != own)
    });
    let names = others.map(|process| {
        let mut parts = process.id.split('-');
        [parts.next(), parts.next()]
            .map(Option::unwrap_or_default)
            .join("-")
    });
    Ok(names.collect())
}

/// Whether all live processes that change counters of facts have these settings.
async fn agree(store: &Store, counting: &str) -> Result<bool, StoreError> {
    let live = live_processes(store).await?;
    let mut settings = live.iter().filter_map(|process| process.counting());
    Ok(settings.all(|of| of == counting))
}

/// The logs with uncounted entries up to these ends (`None`: up to their last entries), and the ends.
async fn uncounted(
    store: &Store,
    ends: Option<&BTreeMap<Partition, u64>>,
) -> Result<BTreeMap<Partition, u64>, StoreError> {
    let partitions: Vec<Partition> = match ends {
        Some(ends) => ends.keys().copied().collect(),
        None => (0..store.keys().partitions()).collect(),
    };
    let inspection = inspect(store, &partitions).await;
    if let Some(error) = inspection.error {
        return Err(error);
    }
    let left = inspection.states.iter().filter_map(|(partition, state)| {
        let end = match (ends.and_then(|ends| ends.get(partition)), &state.end) {
            (Some(end), _) => *end,
            (None, Ok(end)) if end.entry.0 == 0 => end.entry.1,
            // A consumer renumbers the log, or an operator has to repair it.
            _ => u64::MAX,
        };
        let is_counted = matches!(state.position, Ok(next) if next > end);
        (!is_counted).then_some((*partition, end))
    });
    Ok(left.collect())
}
