//! The outcomes of entries that a publisher copies, and of records of the topic. Each is kept while a rebuild may need it: that of an entry
//! until its copy says it, that of a record until the topic has removed the record.

use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use crate::log::archive::{self, Outcome, of_topic_outcome};
use crate::log::kafka::{Topic, Watermarks};
use crate::log::published;
use crate::redis::store::Store;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &[
    "HLEN {outcomes}",
    "HMGET {outcomes} 1",
    "HSCAN {outcomes} 0 COUNT 1",
    "HDEL {outcomes} 1",
];

/// How often outcomes are deleted that are not needed any more.
const INTERVAL: Duration = Duration::from_secs(60);
/// The number of fields of a step of a scan.
const FIELDS: usize = 1_000;

/// The outcomes of the partitions of a process.
pub(super) struct CopiedOutcomes {
    store: Store,
    watermarks: watch::Receiver<Watermarks>,
    forgotten_at: Instant,
}

impl CopiedOutcomes {
    pub(super) fn new(store: Store, watermarks: watch::Receiver<Watermarks>) -> CopiedOutcomes {
        CopiedOutcomes {
            store,
            watermarks,
            forgotten_at: Instant::now(),
        }
    }

    /// The outcomes of entries that were not counted, by partition and offset.
    pub(super) async fn load(
        &self,
        entries: &BTreeMap<Partition, Vec<u64>>,
    ) -> Result<HashMap<(Partition, u64), Outcome>, StoreError> {
        let partitions: Vec<Partition> = entries.keys().copied().collect();
        let mut found = HashMap::new();
        for partition in self.with_outcomes(&partitions).await? {
            let offsets = entries.get(&partition).into_iter().flatten();
            let offsets: Vec<u64> = offsets.copied().collect();
            if offsets.is_empty() {
                continue;
            }
            let mut cmd = redis::cmd("HMGET");
            cmd.arg(self.store.keys().outcomes(partition)).arg(&offsets);
            let outcomes: Vec<Option<u64>> = cmd.query_async(&mut self.store.commands()).await?;
            for (offset, outcome) in offsets.into_iter().zip(outcomes) {
                if let Some(outcome) = outcome.and_then(Outcome::from_number) {
                    found.insert((partition, offset), outcome);
                }
            }
        }
        Ok(found)
    }

    /// Deletes outcomes now and then: of entries that were copied, unless a rebuild reads them from the streams, and of records that the topic
    /// has removed.
    pub(super) async fn forget(
        &mut self,
        partitions: &[Partition],
        topic: &Topic,
    ) -> Result<(), StoreError> {
        if self.forgotten_at.elapsed() < INTERVAL {
            return Ok(());
        }
        self.forgotten_at = Instant::now();
        let partitions = self.with_outcomes(partitions).await?;
        let copied = published::load(&self.store, &partitions).await?;
        // A hold begins at the copied offset, which only grows: a later hold is not below this one.
        let holds = archive::holds(&self.store, &partitions).await?;
        let needed = copied.into_iter().zip(holds);
        for (partition, (copied, hold)) in partitions.into_iter().zip(needed) {
            let first = {
                let watermarks = self.watermarks.borrow();
                let bounds = watermarks
                    .bounds
                    .get(&topic.identity().partition_of(partition));
                bounds.map_or(0, |(first, _)| *first)
            };
            let from = hold.map_or(copied, |hold| hold.min(copied));
            self.forget_before(partition, (from, first)).await?;
        }
        Ok(())
    }

    /// Deletes the outcomes of entries and of records before these offsets.
    async fn forget_before(
        &self,
        partition: Partition,
        (entry, record): (u64, u64),
    ) -> Result<(), StoreError> {
        let mut cursor = 0;
        loop {
            let (next, fields) = self.scan(partition, cursor).await?;
            let old: Vec<String> = fields
                .into_iter()
                .map(|(field, _)| field)
                .filter(|field| match of_topic_outcome(field) {
                    Some(offset) => offset < record,
                    None => field.parse::<u64>().is_ok_and(|offset| offset < entry),
                })
                .collect();
            if !old.is_empty() {
                let mut cmd = redis::cmd("HDEL");
                cmd.arg(self.store.keys().outcomes(partition)).arg(old);
                cmd.exec_async(&mut self.store.commands()).await?;
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// The partitions that have outcomes, which most have not.
    async fn with_outcomes(&self, partitions: &[Partition]) -> Result<Vec<Partition>, StoreError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipe = redis::pipe();
        for partition in partitions {
            pipe.cmd("HLEN").arg(self.store.keys().outcomes(*partition));
        }
        let lengths: Vec<u64> = pipe.query_async(&mut self.store.commands()).await?;
        let partitions = partitions.iter().zip(lengths);
        let partitions = partitions.filter(|(_, length)| *length > 0);
        Ok(partitions.map(|(partition, _)| *partition).collect())
    }

    async fn scan(
        &self,
        partition: Partition,
        cursor: u64,
    ) -> Result<(u64, Vec<(String, String)>), StoreError> {
        let mut cmd = redis::cmd("HSCAN");
        cmd.arg(self.store.keys().outcomes(partition)).arg(cursor);
        cmd.arg("COUNT").arg(FIELDS);
        Ok(cmd.query_async(&mut self.store.commands()).await?)
    }
}
