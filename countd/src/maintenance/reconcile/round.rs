//! The rounds of a consumer: a sample of the entities of its partitions.

use super::compare::{Comparer, PAGE};
use super::context::Context;
use super::drift::check_drift;
use super::keys::KeySweep;
use super::lost::rebuild_lost;
use super::rows::RowSweep;
use crate::domain::error::StoreError;
use crate::domain::event::CheckMode;
use crate::domain::ids::Name;
use crate::domain::keys::{Partition, StoragePhase};
use crate::domain::sweep_ages::{Sweep, SweepAges};
use crate::maintenance::pace::Pace;
use crate::maintenance::sums::SumSweep;
use crate::redis::script::LoadedScript;
use crate::repair::{CheckSettings, HotEntities, LostTable, other_processes, record_lost, settle};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use tokio::sync::watch;

pub(super) static LEASE: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::writing(include_str!("../../lua/lease.lua")));

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["HINCRBY {reconcile} f 1", "HGET {reconcile} f"];

/// What the audit names as the source of corrections.
const SOURCE: &str = "reconcile";
/// The time to live of the lock of a partition. It is renewed with each page.
const LOCK: Duration = Duration::from_secs(30);
/// How long a round waits until events of other settings are counted.
const SETTLE: Duration = Duration::from_secs(30);
/// The interval between two looks for lost tables.
const LOST_POLL: Duration = Duration::from_secs(2);

/// Compares entities of the assigned partitions in rounds, until `stop` turns true. Each round compares the `hot` ones. Rebuilds the rows
/// of lost tables at once. Records the age of the sweeps in `ages`.
pub async fn run(
    context: Context,
    assigned: watch::Receiver<Arc<Vec<Partition>>>,
    (hot, ages): (HotEntities, SweepAges),
    mut stop: watch::Receiver<bool>,
) {
    if !context.catalog.config.reconcile.enabled {
        let _ = stop.wait_for(|stop| *stop).await;
        return;
    }
    let interval = context.catalog.config.reconcile.interval_seconds as f64;
    // A round may take as long as the interval.
    let (lost_context, lost_assigned) = (context.clone(), assigned.clone());
    let lost = async {
        loop {
            tokio::time::sleep(LOST_POLL).await;
            let partitions = Arc::clone(&lost_assigned.borrow());
            if let Err(error) = rebuild_lost(&lost_context, &partitions).await {
                tracing::warn!(%error, "rows of lost tables cannot be rebuilt now");
            }
        }
    };
    let rounds = async {
        let mut rounds = Rounds::new(context, hot, ages);
        let mut begun = Instant::now();
        loop {
            // Consumers do not begin their rounds at the same time.
            let wait = Duration::from_secs_f64(interval * (0.9 + 0.2 * fastrand::f64()));
            tokio::time::sleep(wait.saturating_sub(begun.elapsed())).await;
            begun = Instant::now();
            let partitions = Arc::clone(&assigned.borrow());
            let compares = rounds.run(&partitions).await;
            if let Err(error) = &compares {
                tracing::warn!(%error, "counters cannot be compared with their facts now");
            }
            let is_stopped = !compares.unwrap_or(false);
            metrics::gauge!("countd_reconcile_stopped").set(f64::from(u8::from(is_stopped)));
        }
    };
    tokio::select! {
        () = rounds => {}
        () = lost => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

/// The state of the rounds of a process.
struct Rounds {
    context: Context,
    sums: SumSweep,
    hot: HotEntities,
    token: String,
    /// Where the next round begins if this one does not visit all partitions.
    first: usize,
    /// Since when each sweep runs, in milliseconds since 1970: by the type of its rows, or none, and its partition.
    sweeps: BTreeMap<(Option<Name>, Partition), u64>,
    ages: SweepAges,
}

impl Rounds {
    fn new(context: Context, hot: HotEntities, ages: SweepAges) -> Rounds {
        let Context { store, catalog } = &context;
        Rounds {
            sums: SumSweep::new(store.clone(), Arc::clone(&catalog.config)),
            context,
            hot,
            token: format!("{}-{:016x}", std::process::id(), fastrand::u64(..)),
            first: 0,
            sweeps: BTreeMap::new(),
            ages,
        }
    }

    /// One round over partitions. Returns false if counters cannot be compared now.
    async fn run(&mut self, partitions: &[Partition]) -> Result<bool, StoreError> {
        self.set_age(partitions);
        let layout = self.context.store.refresh_layout().await;
        layout.map_err(|error| StoreError::Unexpected(error.to_string()))?;
        let external = self.context.store.layout().external().len();
        metrics::gauge!("countd_metrics_without_source").set(external as f64);
        if partitions.is_empty() {
            return Ok(true);
        }
        let config = Arc::clone(&self.context.catalog.config);
        let settings = &config.reconcile;
        let interval = Duration::from_secs(settings.interval_seconds);
        let patience = match partitions.contains(&0) {
            true => interval.min(SETTLE),
            false => Duration::ZERO,
        };
        if !settle(&self.context.store, &config, patience).await? {
            let processes = other_processes(&self.context.store, &config).await?;
            tracing::warn!(
                ?processes,
                "counters are not compared: processes or uncounted events have other settings"
            );
            return Ok(false);
        }
        let deadline = Instant::now() + interval;
        let source = Name::new(SOURCE)
            .map_err(|error| StoreError::Unexpected(format!("{SOURCE}: {error}")))?;
        let mut comparer = Comparer::new(
            &self.context,
            CheckSettings {
                mode: CheckMode::Correct,
                source,
                round: self.number(partitions).await?,
                report: None,
            },
        );
        let mut pace = Pace::new(settings.entities_per_second);
        check_drift(
            &self.context,
            &self.sums,
            (&mut comparer, &mut pace),
            partitions,
        )
        .await?;
        self.compare_hot(&mut comparer, &mut pace, partitions)
            .await?;
        self.sample_keys(&mut comparer, &mut pace, (partitions, deadline))
            .await?;
        if self.context.store.backend().has_tables() {
            self.sample_rows(&mut comparer, &mut pace, (partitions, deadline))
                .await?;
        }
        self.set_age(partitions);
        Ok(true)
    }

    /// Records the age of the oldest sweep of these partitions.
    fn set_age(&mut self, partitions: &[Partition]) {
        self.sweeps
            .retain(|(_, partition), _| partitions.contains(partition));
        match partitions.is_empty() {
            true => self.ages.remove(Sweep::Entities),
            false => {
                let oldest = self.sweeps.values().min().copied();
                self.ages.set(Sweep::Entities, oldest);
            }
        }
    }

    /// The number of the round. The consumer of partition 0 begins a new one.
    async fn number(&self, partitions: &[Partition]) -> Result<u64, StoreError> {
        let store = &self.context.store;
        let key = store.keys().reconciliation();
        if partitions.contains(&0) {
            let mut cmd = redis::cmd("HINCRBY");
            cmd.arg(key).arg("round").arg(1);
            return Ok(cmd.query_async(&mut store.commands()).await?);
        }
        let mut cmd = redis::cmd("HGET");
        cmd.arg(key).arg("round");
        let round: Option<u64> = cmd.query_async(&mut store.commands()).await?;
        Ok(round.unwrap_or(0))
    }

    /// Compares the entities with the most events since the last round.
    async fn compare_hot(
        &mut self,
        comparer: &mut Comparer,
        pace: &mut Pace,
        partitions: &[Partition],
    ) -> Result<(), StoreError> {
        let own: BTreeSet<Partition> = partitions.iter().copied().collect();
        let keys = self.context.store.keys();
        let mut hot = self.hot.take();
        hot.retain(|entity| own.contains(&keys.of_entity(entity)));
        for page in hot.chunks(PAGE) {
            comparer.compare(page).await?;
            pace.add(page.len()).await;
        }
        Ok(())
    }

    /// Compares a sample of the entities of the tables of partitions.
    async fn sample_rows(
        &mut self,
        comparer: &mut Comparer,
        pace: &mut Pace,
        (partitions, deadline): (&[Partition], Instant),
    ) -> Result<(), StoreError> {
        for turn in 0..partitions.len() {
            let partition = partitions[(self.first + turn) % partitions.len()];
            if Instant::now() >= deadline && turn > 0 {
                self.first = (self.first + turn) % partitions.len();
                return Ok(());
            }
            if self.lock(partition).await? {
                let sampled = self.sample_partition(comparer, pace, partition).await;
                self.unlock(partition).await;
                sampled?;
            }
        }
        Ok(())
    }

    async fn sample_partition(
        &mut self,
        comparer: &mut Comparer,
        pace: &mut Pace,
        partition: Partition,
    ) -> Result<(), StoreError> {
        let config = Arc::clone(&self.context.catalog.config);
        for (etype, entity) in &config.entities {
            let phase = comparer.planner.locator().storage_of(etype);
            if phase != StoragePhase::Table || comparer.planner.of_type(etype).await?.is_none() {
                continue;
            }
            let schema = &entity.schema;
            let mut sweep = RowSweep::new(&self.context, (schema, etype), partition);
            let rows = sweep.row_count().await?;
            if sweep.resume(rows).await? {
                let table = LostTable {
                    schema: schema.clone(),
                    etype: etype.clone(),
                    partition,
                };
                record_lost(&self.context.store, [&table]).await?;
                sweep.save().await?;
            }
            comparer.follow_sweep(sweep.number());
            let mut left = rows.div_ceil(config.reconcile.sample);
            let of_rows = (Some(etype.clone()), partition);
            if left == 0 {
                self.sweeps.remove(&of_rows);
                continue;
            }
            loop {
                let limit = left.min(PAGE as u64);
                let (entities, is_last) = sweep.next(limit as usize).await?;
                comparer.compare(&entities).await?;
                pace.add(entities.len()).await;
                left -= limit;
                if is_last || left == 0 {
                    break;
                }
                self.lock(partition).await?;
            }
            let since = sweep.save().await?;
            self.sweeps.insert(of_rows, since);
        }
        Ok(())
    }

    /// Compares a sample of the entities that have facts or objects, of the nodes whose lowest partition is among these.
    async fn sample_keys(
        &mut self,
        comparer: &mut Comparer,
        pace: &mut Pace,
        (partitions, deadline): (&[Partition], Instant),
    ) -> Result<(), StoreError> {
        let store = self.context.store.clone();
        let sample = self.context.catalog.config.reconcile.sample;
        let nodes = store.node_map();
        let mut lowest: BTreeMap<usize, Partition> = BTreeMap::new();
        for partition in (0..store.keys().partitions()).rev() {
            lowest.insert(nodes.node_of(partition), partition);
        }
        let is_swept = |partition: &Partition| lowest.values().any(|lowest| lowest == partition);
        self.sweeps
            .retain(|(etype, partition), _| etype.is_some() || is_swept(partition));
        for (node, server) in store.servers()?.into_iter().enumerate() {
            let Some(partition) = lowest.get(&node) else {
                continue;
            };
            if !partitions.contains(partition) {
                continue;
            }
            let mut sweep = KeySweep::new(&self.context, server, *partition).await?;
            sweep.resume().await?;
            comparer.follow_sweep(sweep.number());
            let mut left = sweep.keys_of_round(sample).await?;
            while left > 0 {
                let limit = left.min(PAGE as u64);
                let page = sweep.next(limit as usize).await?;
                let (is_last, visited) = (page.is_last, page.with_object.len() + page.others.len());
                let entities = comparer.entities_to_compare(page).await?;
                comparer.compare(&entities).await?;
                pace.add(visited).await;
                left -= limit;
                if is_last || Instant::now() >= deadline {
                    break;
                }
            }
            let since = sweep.save().await?;
            self.sweeps.insert((None, *partition), since);
        }
        Ok(())
    }

    /// Acquires or renews the lock of a partition. Two consumers in one partition do no harm: the lock only avoids double work.
    async fn lock(&self, partition: Partition) -> Result<bool, StoreError> {
        self.lease(partition, LOCK).await
    }

    async fn unlock(&self, partition: Partition) {
        // It would expire soon.
        let _ = self.lease(partition, Duration::ZERO).await;
    }

    async fn lease(&self, partition: Partition, lifetime: Duration) -> Result<bool, StoreError> {
        let store = &self.context.store;
        let mut call = LEASE
            .script
            .key(store.keys().reconciliation_lock(partition));
        call.arg(&self.token).arg(lifetime.as_millis() as u64);
        Ok(call.invoke_async(&mut store.commands()).await?)
    }
}
