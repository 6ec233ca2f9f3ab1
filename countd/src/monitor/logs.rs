//! The logs of all partitions.

use super::samples::{Family, Samples};
use crate::domain::keys::Partition;
use crate::log::inspect::{Inspection, LogState, inspect};
use crate::redis::store::Store;

const LAG: &str = "countd_log_lag_events";
const ENTRIES: &str = "countd_log_entries";
const COUNTED: &str = "countd_log_counted_total";
const DAMAGED: &str = "countd_log_damaged_partitions";
const OUTBOXES: &str = "countd_outbox_entries";
const DEAD: &str = "countd_dead_letters";

#[rustfmt::skip]
pub const FAMILIES: [Family; 6] = [
    Family::gauge(LAG, "Uncounted log entries of all partitions, except damaged ones"),
    Family::gauge(ENTRIES, "Entries of all logs, with those that are counted and retained"),
    Family::counter(COUNTED, "Log entries that were counted since the data exists: the sum of all positions"),
    Family::gauge(DAMAGED, "Partitions that cannot be counted until they are repaired"),
    Family::gauge(OUTBOXES, "Derived events that were not forwarded to their partitions; 0 unless the server is in cluster mode"),
    Family::gauge(DEAD, "Dead letters that are stored"),
];

/// Reads the state of all partitions. Without samples if a node is unavailable: a part of the lag would look like all of it.
pub async fn collect(store: &Store) -> Samples {
    let all: Vec<Partition> = (0..store.keys().partitions()).collect();
    let inspection = inspect(store, &all).await;
    if let Some(error) = &inspection.error {
        tracing::debug!(%error, "the state of the logs cannot be collected");
        return Samples::default();
    }
    summed(&inspection, store.keys().tagged())
}

fn summed(inspection: &Inspection, has_dead_letters_by_partition: bool) -> Samples {
    let (mut lag, mut entries, mut counted, mut damaged, mut outboxes) = (0, 0, 0, 0, 0);
    for state in inspection.states.values() {
        match state.log_state() {
            LogState::Healthy(waiting) => lag += waiting,
            // A consumer renumbers it.
            LogState::Disordered => {}
            LogState::Restarted(_) | LogState::Failed(_) => damaged += 1,
        }
        entries += state.entries();
        // The position is the offset of the first entry that was not counted. Offsets begin at 1.
        counted += state
            .position
            .as_ref()
            .map_or(0, |next| next.saturating_sub(1));
        outboxes += state.outbox_length;
    }
    let mut dead = inspection.states.values().map(|state| state.dead_length);
    let dead: u64 = match has_dead_letters_by_partition {
        true => dead.sum(),
        false => dead.next().unwrap_or(0),
    };
    let mut samples = Samples::default();
    for (name, value) in [
        (LAG, lag),
        (ENTRIES, entries),
        (COUNTED, counted),
        (DAMAGED, damaged),
        (OUTBOXES, outboxes),
        (DEAD, dead),
    ] {
        samples.add(name, &[], value as f64);
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::inspect::{LogEnd, PartitionState};

    fn state(partition: Partition, position: u64, last: u64, outbox_length: u64) -> PartitionState {
        PartitionState {
            partition,
            stored: Some(position.to_string().into_bytes()),
            position: Ok(position),
            end: Ok(LogEnd {
                last: (0, last),
                length: 4,
                entry: (0, last),
            }),
            outbox: None,
            outbox_length,
            dead: None,
            dead_length: 5,
        }
    }

    #[test]
    fn partitions_are_summed() {
        let mut inspection = Inspection::default();
        // Six uncounted entries, none, and a log that ends before its position.
        for state in [state(0, 5, 10, 2), state(1, 8, 7, 0), state(2, 9, 3, 1)] {
            inspection.states.insert(state.partition, state);
        }
        for (is_cluster, dead) in [(false, 5.0), (true, 15.0)] {
            let samples = summed(&inspection, is_cluster);
            let value = |name| samples.value(name, "");
            assert_eq!(value(LAG), Some(6.0));
            assert_eq!(value(ENTRIES), Some(12.0));
            assert_eq!(value(COUNTED), Some(4.0 + 7.0 + 8.0));
            assert_eq!(value(DAMAGED), Some(1.0));
            assert_eq!(value(OUTBOXES), Some(3.0));
            assert_eq!(value(DEAD), Some(dead));
        }
    }
}
