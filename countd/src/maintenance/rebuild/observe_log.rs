//! Reads what the log has, with the outcomes of entries, while a hold keeps it.

use super::error::RebuildError;
use super::observe::Observer;
use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use crate::log::LogEntry;
use crate::log::archive::{Outcome, Record};
use std::collections::HashMap;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["HGETALL {outcomes}", "HGET {hold} 0"];

/// The limits of a read of the log: entries and bytes.
const READ: (usize, usize) = (5_000, 8 << 20);

impl Observer {
    /// Reads entries of a partition. Also returns whether there are no more.
    ///
    /// # Errors
    /// The store is unavailable.
    pub async fn entries(
        &self,
        partition: Partition,
        from: u64,
    ) -> Result<(Vec<LogEntry>, bool), StoreError> {
        let (entries, is_end) = self.log.read_counted(partition, from, READ).await?;
        if !entries.is_empty() || is_end {
            return Ok((entries, is_end));
        }
        // The next entry is longer.
        let limits = (1, usize::MAX);
        self.log.read_counted(partition, from, limits).await
    }

    /// Reads entries of a partition, with their outcomes. Also returns whether there are no more.
    pub(super) async fn records(
        &self,
        partition: Partition,
        from: u64,
        outcomes: &HashMap<u64, Outcome>,
    ) -> Result<(Vec<Record>, bool), RebuildError> {
        let (entries, is_end) = self.entries(partition, from).await?;
        if self.refuses_gaps {
            refuse_gaps(partition, from, &entries)?;
        }
        let records = entries.into_iter().map(|entry| Record {
            partition,
            outcome: *outcomes.get(&entry.offset).unwrap_or(&Outcome::Counted),
            entry,
        });
        let records: Vec<Record> = records.collect();
        let is_end = is_end || records.is_empty();
        self.check_hold(partition).await?;
        Ok((records, is_end))
    }

    /// Checks that the hold on a log has existed since it was set. Otherwise entries may have been trimmed, or an erasure may have deleted
    /// them.
    async fn check_hold(&self, partition: Partition) -> Result<(), RebuildError> {
        let mut cmd = redis::cmd("HGET");
        cmd.arg(self.store.keys().archive_hold(partition));
        cmd.arg(partition);
        let hold: Option<u64> = cmd.query_async(&mut self.store.commands()).await?;
        match hold == self.holds.get(&partition).copied() {
            true => Ok(()),
            false => Err(RebuildError::HoldLost),
        }
    }

    /// The outcomes of entries that were not counted. Those of kept entries are kept.
    pub(super) async fn outcomes(
        &self,
        partition: Partition,
    ) -> Result<HashMap<u64, Outcome>, RebuildError> {
        let stored = self.all_outcomes(partition).await?.into_iter();
        let outcomes = stored.filter_map(|(field, outcome)| Some((field.parse().ok()?, outcome)));
        Ok(outcomes.collect())
    }

    /// The outcomes of entries, and of records of the topic, by field.
    pub(super) async fn all_outcomes(
        &self,
        partition: Partition,
    ) -> Result<HashMap<String, Outcome>, RebuildError> {
        let mut cmd = redis::cmd("HGETALL");
        cmd.arg(self.store.keys().outcomes(partition));
        let stored: HashMap<String, u64> = cmd.query_async(&mut self.store.reads()).await?;
        let outcomes = stored
            .into_iter()
            .filter_map(|(field, number)| Some((field, Outcome::from_number(number)?)));
        Ok(outcomes.collect())
    }
}

/// Checks that no entry is missing from an offset on: what is neither copied nor there is lost.
fn refuse_gaps(partition: Partition, from: u64, entries: &[LogEntry]) -> Result<(), RebuildError> {
    let expected = from..;
    let offsets = entries.iter().map(|entry| entry.offset);
    match expected
        .zip(offsets)
        .find(|(expected, found)| expected != found)
    {
        Some((missing, _)) => Err(missing_entry(partition, missing)),
        None => Ok(()),
    }
}

pub(super) fn missing_entry(partition: Partition, offset: u64) -> RebuildError {
    RebuildError::Refused(format!(
        "the entry with offset {offset} of partition {partition} is neither in the stream nor in the topic: a baseline that is younger is needed"
    ))
}
