//! Tracks whether the entries that logs and outboxes had at the first check are counted and forwarded. Callers poll.

use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use crate::log::inspect::inspect;
use crate::redis::permissions::Permissions;
use crate::redis::store::Store;
use std::collections::BTreeMap;

/// Commands that this file sends.
const PERMISSIONS: &[&str] = &["XREVRANGE {out} + - COUNT 1", "XRANGE {out} - + COUNT 1"];

/// The permissions to follow outboxes.
pub(super) fn required_permissions() -> Permissions {
    Permissions::of_commands(PERMISSIONS)
}

/// Logs some of whose entries are not counted.
pub(super) struct UncountedLogs {
    left: Vec<Partition>,
    /// The offset of the last entry of each log when it was seen first.
    ends: BTreeMap<Partition, u64>,
}

impl UncountedLogs {
    /// The logs of these partitions, with the entries that they have at the first check.
    pub(super) fn of(partitions: &[Partition]) -> UncountedLogs {
        UncountedLogs {
            left: partitions.to_vec(),
            ends: BTreeMap::new(),
        }
    }

    /// Returns whether all of these entries are counted. Takes one round trip per node.
    ///
    /// # Errors
    /// Redis failed.
    pub(super) async fn are_counted(&mut self, store: &Store) -> Result<bool, StoreError> {
        let inspection = inspect(store, &self.left).await;
        if let Some(error) = inspection.error {
            return Err(error);
        }
        self.left.retain(|partition| {
            let Some(state) = inspection.states.get(partition) else {
                return true;
            };
            let now = match &state.end {
                Ok(end) if end.entry.0 == 0 => end.entry.1,
                // A consumer renumbers the log, or an operator has to repair it.
                _ => return true,
            };
            // Entries that a restarted server has lost are never counted.
            let end = self.ends.entry(*partition).or_insert(now);
            *end = now.min(*end);
            !matches!(state.position, Ok(next) if next > *end)
        });
        Ok(self.left.is_empty())
    }
}

/// Stream entries: IDs, and fields with their values.
type Entries = Vec<(String, Vec<Vec<u8>>)>;

/// An outbox with the last entry that it had.
pub(super) struct OutboxEnd {
    outbox: String,
    last: String,
}

impl OutboxEnd {
    /// The outbox of a partition. `None` if it is empty. One round trip.
    ///
    /// # Errors
    /// Redis failed.
    pub(super) async fn of(
        store: &Store,
        partition: Partition,
    ) -> Result<Option<OutboxEnd>, StoreError> {
        let outbox = store.keys().outbox(partition);
        let mut cmd = redis::cmd("XREVRANGE");
        cmd.arg(&outbox).arg(&["+", "-", "COUNT", "1"]);
        let last: Entries = cmd.query_async(&mut store.commands()).await?;
        let last = last.into_iter().next();
        Ok(last.map(|(last, _)| OutboxEnd { outbox, last }))
    }

    /// Whether all entries up to the last one are in the logs of other partitions. One round trip.
    ///
    /// # Errors
    /// Redis failed.
    pub(super) async fn is_forwarded(&self, store: &Store) -> Result<bool, StoreError> {
        let mut cmd = redis::cmd("XRANGE");
        cmd.arg(&self.outbox).arg(&["-", &self.last, "COUNT", "1"]);
        let first: Entries = cmd.query_async(&mut store.commands()).await?;
        Ok(first.is_empty())
    }
}
