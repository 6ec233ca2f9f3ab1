//! The state of a worker.

use super::super::accumulator::Accumulator;
use super::super::assignment::{AssignedPartitions, WorkerAssignment};
use super::super::change_streams::ChangeStreams;
use super::super::outbox_relay::OutboxRelay;
use super::super::topic_lag::WatchedTopic;
use super::blocked::BlockedPartitions;
use super::partitions::OwnedPartitions;
use super::read_limit::ReadLimit;
use super::repaired_types::repaired_types;
use super::topic::WorkerTopic;
use crate::domain::health::Health;
use crate::domain::ids::Name;
use crate::domain::keys::Partition;
use crate::facts::FactStores;
use crate::log::Streams;
use crate::redis::store::Store;
use crate::repair::{HotEntities, Rebuilder};
use crate::storage::catalog::Catalog;
use crate::storage::hot::HotList;
use crate::storage::locator::Locator;
use crate::storage::moves::TypesInRows;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// What the workers of a process share.
#[derive(Clone)]
pub struct Shared {
    /// The partitions that have failed.
    pub health: Health,
    /// The entities of the events that were counted.
    pub counted: HotEntities,
    /// The hot entities of all processes.
    pub hot: HotList,
    /// The topic, if the log is in Kafka.
    pub topic: Option<WatchedTopic>,
}

/// A task that reads and commits some of the process's partitions.
pub struct Worker {
    pub(super) store: Store,
    pub(super) catalog: Catalog,
    pub(super) locator: Locator,
    /// The types that a migration moves and whose counters are in rows, by commit group.
    pub(super) in_rows: BTreeMap<Partition, TypesInRows>,
    pub(super) rebuilder: Rebuilder,
    /// The types whose damaged counters are repaired, by the layout of `locator`. That of users stands for the counters of users.
    pub(super) repaired_types: HashSet<Name>,
    pub(super) counted: HotEntities,
    pub(super) hot: HotList,
    pub(super) health: Health,
    pub(super) log: Streams,
    /// The topic, if the log is in Kafka.
    pub(super) topic: Option<WorkerTopic>,
    pub(super) assignment: WorkerAssignment,
    pub(super) outbox_relay: OutboxRelay,
    pub(super) partitions: OwnedPartitions,
    pub(super) accumulator: Accumulator,
    pub(super) blocked: BlockedPartitions,
    pub(super) read_limit: ReadLimit,
    pub(super) change_streams: ChangeStreams,
    /// Whether a read since the last flush returned all entries. A read of a busy partition often does not, although the worker does not
    /// lag: the next one has a higher limit.
    pub(super) has_caught_up: bool,
}

impl Worker {
    /// The worker with this number. `assigned` is the assignment of the process. Must be called within a Tokio runtime.
    pub fn new(
        store: Store,
        catalog: Catalog,
        Shared {
            health,
            counted,
            hot,
            topic,
        }: Shared,
        number: usize,
        assigned: AssignedPartitions,
    ) -> Worker {
        let settings = &catalog.config.consumer;
        let shards = catalog.config.facts.shards;
        let facts = FactStores::new(store.keys(), store.current_backend(), shards);
        let locator = Locator::of(&store);
        let log = || Streams::new(store.clone(), &catalog.config);
        Worker {
            log: log(),
            assignment: WorkerAssignment::new(
                store.clone(),
                assigned,
                number,
                (
                    settings.workers,
                    topic.as_ref().map(WatchedTopic::partitions),
                ),
            ),
            topic: topic.map(|topic| WorkerTopic::new(topic, number, log())),
            outbox_relay: OutboxRelay::start(store.clone(), log(), health.clone()),
            partitions: OwnedPartitions::new(),
            accumulator: Accumulator::new(store.keys()),
            blocked: BlockedPartitions::default(),
            read_limit: ReadLimit::new(settings.batch),
            change_streams: ChangeStreams::new(&catalog.config.changes, store.keys()),
            has_caught_up: false,
            rebuilder: Rebuilder::new(catalog.clone(), store.clone(), facts),
            repaired_types: repaired_types(&catalog.config, &locator),
            locator,
            in_rows: BTreeMap::new(),
            store,
            catalog,
            health,
            counted,
            hot,
        }
    }

    /// Whether the layout of the data is the one by which the worker aggregates, and was confirmed recently.
    pub(super) fn follows_layout(&self) -> bool {
        let is_current = Arc::ptr_eq(&self.store.layout(), self.locator.layout());
        is_current && self.store.knows_layout()
    }

    /// Follows the current layout of the data. Drops everything that was aggregated by another one.
    pub(super) fn follow_layout(&mut self) {
        self.locator = Locator::of(&self.store);
        self.repaired_types = repaired_types(&self.catalog.config, &self.locator);
        self.in_rows.clear();
        self.reset();
    }

    /// Drops everything that is not committed. It will be read again from the stored positions: after a failover or a restart the
    /// server may have lost its last writes.
    pub(super) fn reset(&mut self) {
        self.accumulator.clear();
        self.partitions.clear();
    }
}
