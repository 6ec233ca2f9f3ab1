//! Waits until what a job has appended is counted.

use super::context::Erasure;
use crate::consumer::load_topic_offsets;
use crate::domain::config::LogKind;
use crate::domain::error::{Problem, StoreError};
use crate::domain::keys::Partition;
use crate::log::archive;
use crate::log::inspect::inspect;
use crate::log::kafka::end_offsets;
use crate::log::{published, sink_holds};
use crate::maintenance::jobs::Lease;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["XREVRANGE {out} + - COUNT 1", "XRANGE {out} - +"];

/// The delay between two checks.
const DELAY: Duration = Duration::from_millis(50);
/// How long a job waits without progress before it is given up for now.
const PATIENCE: Duration = Duration::from_secs(5);

/// The same for the topic: under load, the positions of partitions without records advance every 30 seconds.
const TOPIC_PATIENCE: Duration = Duration::from_secs(40);

/// The part of an outbox that exists: nothing, or the sequence numbers of its first and its last entry.
type Outbox = Option<(u64, u64)>;

/// How long there has been no progress.
struct Patience {
    left: (u64, u64),
    since: Instant,
    limit: Duration,
}

impl Patience {
    fn new() -> Patience {
        Patience::of(PATIENCE)
    }

    fn of(limit: Duration) -> Patience {
        Patience {
            left: (u64::MAX, 0),
            since: Instant::now(),
            limit,
        }
    }

    /// Waits before the next check, given what is left: a number, and any sum that changes with progress. Returns false if there was no
    /// progress for too long.
    async fn wait(&mut self, lease: &mut Lease, left: (u64, u64)) -> Result<bool, Problem> {
        if left != self.left {
            (self.left, self.since) = (left, Instant::now());
        }
        if self.since.elapsed() > self.limit {
            return Ok(false);
        }
        lease.keep_alive().await?;
        tokio::time::sleep(DELAY).await;
        Ok(true)
    }
}

impl Erasure {
    pub(super) fn all_partitions(&self) -> Vec<Partition> {
        (0..self.store.keys().partitions()).collect()
    }

    /// Waits until all entries that exist now are counted, with everything that they forward to other partitions. Returns why not, if
    /// there is no progress.
    pub(super) async fn drain(&self, lease: &mut Lease) -> Result<Option<String>, Problem> {
        let all = self.all_partitions();
        if let Some(reason) = self.drain_topic(lease, &all).await? {
            return Ok(Some(reason));
        }
        if let Some(reason) = self.drain_logs(lease, &all).await? {
            return Ok(Some(reason));
        }
        let noted: BTreeMap<Partition, u64> = self
            .outboxes(&all)
            .await?
            .into_iter()
            .filter_map(|(partition, outbox)| Some((partition, outbox?.1)))
            .collect();
        if noted.is_empty() {
            return Ok(None);
        }
        let partitions: Vec<Partition> = noted.keys().copied().collect();
        let mut patience = Patience::new();
        loop {
            let mut left = (0, 0);
            for (partition, outbox) in self.outboxes(&partitions).await? {
                if let Some((first, _)) = outbox
                    && first <= noted[&partition]
                {
                    left = (left.0 + 1, left.1 + first);
                }
            }
            if left.0 == 0 {
                break;
            }
            if !patience.wait(lease, left).await? {
                return Ok(Some("outboxes are not forwarded".to_owned()));
            }
        }
        self.drain_logs(lease, &all).await
    }

    /// Waits until the entries and the records that a partition has now are counted, without what they forward. Returns why not, if there is
    /// no progress.
    pub(super) async fn drain_partition(
        &self,
        lease: &mut Lease,
        partition: Partition,
    ) -> Result<Option<String>, Problem> {
        if let Some(reason) = self.drain_topic(lease, &[partition]).await? {
            return Ok(Some(reason));
        }
        self.drain_logs(lease, &[partition]).await
    }

    /// Waits until the records that the topic has now are counted. Returns why not, if there is no progress.
    async fn drain_topic(
        &self,
        lease: &mut Lease,
        partitions: &[Partition],
    ) -> Result<Option<String>, Problem> {
        let Some(topic) = &self.topic else {
            return Ok(None);
        };
        let ends = match end_offsets(topic).await {
            Ok(ends) => ends,
            Err(error) => return Ok(Some(error.to_string())),
        };
        let mut patience = Patience::of(TOPIC_PATIENCE);
        loop {
            let positions = load_topic_offsets(&self.store, partitions).await?;
            let mut left = (0, 0);
            for (partition, position) in partitions.iter().zip(positions) {
                let of_topic = usize::from(topic.identity().partition_of(*partition));
                let end = ends.get(of_topic).copied().unwrap_or(0);
                match position {
                    Some(position) if position >= end => {}
                    position => left = (left.0 + 1, left.1 + position.unwrap_or(0)),
                }
            }
            if left.0 == 0 {
                return Ok(None);
            }
            if !patience.wait(lease, left).await? {
                return Ok(Some("events in the topic are not counted".to_owned()));
            }
        }
    }

    /// Waits until the entries that these logs have now are counted. Returns why not, if there is no progress.
    pub(super) async fn drain_logs(
        &self,
        lease: &mut Lease,
        partitions: &[Partition],
    ) -> Result<Option<String>, Problem> {
        let mut noted: BTreeMap<Partition, u64> = BTreeMap::new();
        let mut patience = Patience::new();
        loop {
            let inspection = inspect(&self.store, partitions).await;
            if let Some(error) = inspection.error {
                return Err(error.into());
            }
            let (mut left, mut problem) = ((0, 0), None);
            for (partition, state) in &inspection.states {
                match (&state.position, &state.end) {
                    (Ok(next), Ok(end)) => {
                        let last = *noted.entry(*partition).or_insert(end.entry.1);
                        if *next <= last {
                            left = (left.0 + 1, left.1 + next);
                        }
                    }
                    (Err(error), _) | (_, Err(error)) => {
                        left.0 += 1;
                        problem = Some(format!("partition {partition}: {error}"));
                    }
                }
            }
            if left.0 == 0 {
                return Ok(None);
            }
            if !patience.wait(lease, left).await? {
                let reason = || "events are not counted".to_owned();
                return Ok(Some(problem.unwrap_or_else(reason)));
            }
        }
    }

    /// Waits until these logs are archived, or copied to the topic, up to their last counted entries, if they are: an entry that is deleted
    /// before would be missing in a restore, which would then keep what it has removed, or in a rebuild.
    pub(super) async fn wait_until_archived(
        &self,
        lease: &mut Lease,
        logs: &[(Partition, String, u64)],
    ) -> Result<(), Problem> {
        let archives = self.store.layout().archives;
        if !archives && !self.copies() {
            return Ok(());
        }
        let partitions: Vec<Partition> = logs.iter().map(|(partition, ..)| *partition).collect();
        let mut patience = Patience::new();
        loop {
            let archived = match archives {
                true => archive::load(&self.store, &partitions).await?,
                false => {
                    let copied = published::load(&self.store, &partitions).await?;
                    copied.into_iter().map(Some).collect()
                }
            };
            let mut left = (0, 0);
            for ((_, _, counted), archived) in logs.iter().zip(archived) {
                let archived = archived.unwrap_or(0);
                if archived <= *counted {
                    left = (left.0 + 1, left.1 + archived);
                }
            }
            if left.0 == 0 {
                return Ok(());
            }
            if !patience.wait(lease, left).await? {
                let problem = match archives {
                    true => "events are not archived".to_owned(),
                    false => "events are not copied to the topic".to_owned(),
                };
                return Err(StoreError::Unexpected(problem).into());
            }
        }
    }

    /// Why the counted entries of these logs cannot be deleted now, if they cannot: a rebuild or a sink reads them from the logs. A rebuild that
    /// begins later reads them from the archive, so they have to be archived first.
    pub(super) async fn held(
        &self,
        lease: &mut Lease,
        logs: &[(Partition, String, u64)],
    ) -> Result<Option<String>, Problem> {
        let partitions: Vec<Partition> = logs.iter().map(|(partition, ..)| *partition).collect();
        // The number of logs that are held, and a number that grows with progress.
        let held = |holds: Vec<Option<u64>>| {
            let holds = logs.iter().zip(holds);
            let held = holds.filter_map(|((_, _, counted), hold)| hold.filter(|at| at <= counted));
            held.fold((0, 0), |(logs, sum), hold| (logs + 1, sum + hold))
        };
        let mut patience = Patience::new();
        loop {
            let left = held(sink_holds(&self.store, &partitions).await?);
            if left.0 == 0 {
                break;
            }
            if !patience.wait(lease, left).await? {
                return Ok(Some("a sink has not read the logs yet".to_owned()));
            }
        }
        let archives = self.store.layout().archives;
        if !archives && !self.copies() {
            return Ok(None);
        }
        let (held, _) = held(archive::holds(&self.store, &partitions).await?);
        Ok((held > 0).then(|| "a rebuild or a baseline reads the logs".to_owned()))
    }

    /// Whether streams are copied to a topic.
    fn copies(&self) -> bool {
        self.catalog.config.log.kind == LogKind::Kafka
    }

    async fn outboxes(
        &self,
        partitions: &[Partition],
    ) -> Result<Vec<(Partition, Outbox)>, Problem> {
        let keys = self.store.keys();
        let mut pipeline = redis::pipe();
        for partition in partitions {
            let outbox = keys.outbox(*partition);
            let first = pipeline.cmd("XRANGE").arg(&outbox);
            first.arg(&["-", "+", "COUNT", "1"]);
            let last = pipeline.cmd("XREVRANGE").arg(&outbox);
            last.arg(&["+", "-", "COUNT", "1"]);
        }
        type Page = Vec<(String, Vec<Vec<u8>>)>;
        let pages: Vec<Page> = pipeline.query_async(&mut self.store.reads()).await?;
        let number = |page: &Page| -> Result<Option<u64>, StoreError> {
            let Some((id, _)) = page.first() else {
                return Ok(None);
            };
            let number = id.strip_prefix("0-").and_then(|number| number.parse().ok());
            let unexpected = || StoreError::Unexpected(format!("entry {id} of an outbox"));
            number.ok_or_else(unexpected).map(Some)
        };
        let mut outboxes = Vec::with_capacity(partitions.len());
        for (partition, pages) in partitions.iter().zip(pages.chunks(2)) {
            let [first, last] = pages else {
                continue;
            };
            outboxes.push((*partition, number(first)?.zip(number(last)?)));
        }
        Ok(outboxes)
    }
}
