//! `countd reverse backfill`: adds the facts of a metric that were recorded before it was kept for users.
//!
//! The layout first tells the consumers to keep the metric for users, and requests to refuse to read it. When all processes follow, each
//! key with facts is scanned, and entries of the log ask the consumers to read these facts again. A consumer reads them when it reaches
//! the entry, so changes during the backfill are applied in order. When all entries are committed, the layout permits reads.
//!
//! Each step can be repeated. A backfill that was killed at any point is finished by running the command again.

mod drain;
pub mod permissions;
mod scan;

use crate::domain::config::{Config, FactKind, Metric};
use crate::domain::error::{ConnectError, StoreError};
use crate::domain::ids::Name;
use crate::domain::keys::Partition;
use crate::domain::progress::{Progress, Update};
use crate::log::Streams;
use crate::maintenance::storage::refuse_while_split;
use crate::maintenance::visits::node_sizes;
use crate::redis::layout::{ReverseState, StoredLayout};
use crate::redis::processes::{
    ProcessMember, consumer_without_heartbeat, is_anyone_behind, live_consumers,
};
use crate::redis::run_id::run_ids;
use crate::redis::store::Store;
use redis::RedisError;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The delay between two looks at the consumers.
const POLL: Duration = Duration::from_millis(100);
/// How long a consumer of an older version is tolerated: the heartbeats of a dead consumer expire.
const PATIENCE: Duration = Duration::from_secs(15);

/// Why a backfill stopped. The next run starts again.
#[derive(Debug, thiserror::Error)]
pub enum BackfillError {
    /// The configuration or the processes do not allow it.
    #[error("{0}")]
    Refused(String),
    /// Redis failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The layout cannot be read.
    #[error(transparent)]
    Layout(#[from] ConnectError),
}

impl From<RedisError> for BackfillError {
    fn from(error: RedisError) -> BackfillError {
        BackfillError::Store(error.into())
    }
}

/// A backfill.
pub struct Backfill<'a> {
    store: Store,
    log: Streams,
    name: &'a Name,
    kind: FactKind,
    /// How long to wait for processes that were suspended and still follow the former layout.
    grace: Duration,
    /// The partitions with entries that are not known to be committed.
    waiting: BTreeSet<Partition>,
    waiting_facts: u64,
    facts: u64,
    /// About the number of keys that were visited, and of those to visit; 0 until the scan begins.
    visited: u64,
    all: u64,
    /// The run IDs of all masters when the scan began.
    servers: Vec<String>,
    progress: &'a dyn Progress,
}

impl<'a> Backfill<'a> {
    /// The backfill of a metric. `progress` gets about the number of keys that were visited, of all, and the number of facts so far.
    ///
    /// # Errors
    /// The metric has no facts, or the configuration does not say that they are kept for users.
    pub fn new(
        store: Store,
        config: &Config,
        (name, metric): (&'a Name, &Metric),
        grace: Duration,
        progress: &'a dyn Progress,
    ) -> Result<Backfill<'a>, BackfillError> {
        let refused = |problem: String| BackfillError::Refused(problem);
        let kind = metric.fact_kind();
        let kind = kind.ok_or_else(|| refused(format!("{name} is repeatable: it has no facts")))?;
        if !metric.reverse {
            let problem = format!("set reverse = true in [metrics.{name}] first");
            return Err(refused(problem));
        }
        Ok(Backfill {
            log: Streams::new(store.clone(), config),
            store,
            name,
            kind,
            grace,
            waiting: BTreeSet::new(),
            waiting_facts: 0,
            facts: 0,
            visited: 0,
            all: 0,
            servers: Vec::new(),
            progress,
        })
    }

    /// Runs the backfill. Returns the number of facts that were read again.
    ///
    /// # Errors
    /// A consumer is of an older version, a server was restarted, or Redis failed.
    pub async fn run(mut self) -> Result<u64, BackfillError> {
        let mut member = ProcessMember::new(self.store.clone());
        let result = self.run_as(&mut member).await;
        // Its heartbeat would expire soon.
        let _ = member.leave().await;
        result
    }

    async fn run_as(&mut self, member: &mut ProcessMember) -> Result<u64, BackfillError> {
        self.store.refresh_layout().await?;
        if self.store.backend().is_mixed() {
            let problem = "an adoption converts the data: finish `countd storage adopt` first";
            return Err(BackfillError::Refused(problem.to_owned()));
        }
        refuse_while_split(&self.store.layout())
            .map_err(|error| BackfillError::Refused(error.to_string()))?;
        // Facts of a metric that is kept already are added again, for example after a log was reset.
        if !self.store.layout().has_reverse(self.name) {
            self.record(ReverseState::Backfill).await?;
        }
        self.wait_for_processes(member).await?;
        self.step("grace period");
        let end = Instant::now() + self.grace;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            member.heartbeat().await?;
            tokio::time::sleep(left.min(Duration::from_secs(1))).await;
        }
        self.servers = run_ids(&self.store).await?;
        // Compaction may move facts from a key that was not scanned yet to one that was. The second pass finds them there.
        let passes = if self.kind == FactKind::Daily { 2 } else { 1 };
        let sizes = node_sizes(&self.store).await?;
        let scans = passes * self.scans_per_pass();
        self.all = scans * sizes.iter().sum::<u64>();
        for _ in 0..passes {
            for (mut server, size) in self.store.servers()?.into_iter().zip(&sizes) {
                self.scan((&mut server, *size), member).await?;
            }
        }
        self.drain(member).await?;
        self.check_servers().await?;
        if !self.store.layout().has_reverse(self.name) {
            self.record(ReverseState::On).await?;
        }
        self.wait_for_processes(member).await?;
        Ok(self.facts)
    }

    /// Checks that no server was restarted or replaced since the scan began: it may have lost the last entries of logs, and a scan that
    /// continues on it may miss keys.
    async fn check_servers(&self) -> Result<(), BackfillError> {
        if run_ids(&self.store).await? == self.servers {
            return Ok(());
        }
        let problem = "a Redis server was restarted or replaced meanwhile, and may have lost a part of the backfill: run it again";
        Err(BackfillError::Refused(problem.to_owned()))
    }

    fn step(&self, step: &str) {
        let all = (self.all > 0).then_some(self.all);
        let update = Update::new(step, self.visited, "keys").of(all);
        self.progress.update(&update.with(&[("facts", self.facts)]));
    }

    async fn record(&mut self, state: ReverseState) -> Result<(), BackfillError> {
        let keys = self.store.keys();
        let mut connection = self.store.commands();
        StoredLayout::record_reverse(&mut connection, &keys, (self.name, state)).await?;
        Ok(())
    }

    /// Waits until all live processes follow the current layout.
    async fn wait_for_processes(
        &mut self,
        member: &mut ProcessMember,
    ) -> Result<(), BackfillError> {
        self.step("waiting for all processes");
        let started = Instant::now();
        loop {
            let live = member.heartbeat().await?;
            let epoch = self.store.layout().epoch;
            let consumers = live_consumers(&self.store).await?;
            match consumer_without_heartbeat(&live, &consumers) {
                Some(pid) if started.elapsed() > PATIENCE => {
                    return Err(BackfillError::Refused(format!(
                        "the consumer with the process ID {pid} is of an older version: all processes must be of this version first"
                    )));
                }
                None if !is_anyone_behind(&live, epoch) => return Ok(()),
                _ => tokio::time::sleep(POLL).await,
            }
        }
    }
}
