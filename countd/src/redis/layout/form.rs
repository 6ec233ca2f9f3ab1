//! The parsed layout.

use super::splits::Splits;
use crate::domain::author_feed::AuthorFeed;
use crate::domain::config::USER;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::{PartitionHash, StoragePhase};
use crate::domain::schema_views::SchemaViews;
use crate::domain::split::SplitState;
use crate::redis::script::CounterBackend;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Whether the facts of a metric are kept for users that was not kept from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReverseState {
    /// New facts are kept, and earlier ones are being added.
    Backfill,
    /// All facts are kept.
    On,
}

impl ReverseState {
    pub(super) fn name(self) -> &'static str {
        match self {
            ReverseState::Backfill => "backfill",
            ReverseState::On => "on",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<ReverseState> {
        [ReverseState::Backfill, ReverseState::On]
            .into_iter()
            .find(|state| state.name() == name)
    }
}

/// How the author of an entity is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authors {
    /// The data registers the author of each entity.
    Registry {
        /// The counters of authors that metrics feed. The place of a counter is its column in the tables of authors.
        feeds: Vec<AuthorFeed>,
    },
    /// Each event names the author. Data that countd created before it registered authors.
    Event,
}

/// The stored layout of the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLayout {
    /// The hash that determines partitions.
    pub hash: PartitionHash,
    /// How the data stores counters and id sets.
    pub backend: CounterBackend,
    /// How the author of an entity is known.
    pub authors: Authors,
    /// The metrics whose facts are kept for users, too.
    pub reverse: Vec<Name>,
    /// Whether the first process that uses the data has yet to decide which metrics these are.
    pub is_reverse_undecided: bool,
    /// Those of them whose earlier facts are not there yet.
    pub(super) unfinished_reverse: Vec<Name>,
    /// The *once* metrics of which events without facts were counted: the numbers of facts are not those of the counters.
    pub(super) external: Vec<Name>,
    /// How counters of facts change in all processes and all uncounted events ([`Config::counting`](crate::domain::config::Config::counting)). Empty while that differs.
    pub counting: String,
    /// Whether counted entries are archived. They are not trimmed before, and the log has every change of a counter.
    pub archives: bool,
    /// Whether a sink follows the log. What it holds is not trimmed, and the log has every change of a counter.
    pub sinks: bool,
    /// Whether repeatable events are, or were, in a topic of Kafka. Streams are copied to it, and the log has every change of a counter.
    pub has_topic: bool,
    /// Where the topic has lost records that were counted, by partition. Empty for a topic that is whole.
    pub(super) truncations: Vec<Truncation>,
    /// Whether a restore is under way. Nothing else may use the data.
    pub is_restoring: bool,
    /// Grows with each change that running processes must see: the time of the change, in milliseconds since 1970. Data of earlier versions
    /// counted the changes.
    pub epoch: u64,
    /// Whether an entity was ever split: another one can be, at any time.
    pub can_split: bool,
    pub(super) splits: Splits,
    pub(super) storages: HashMap<String, StoragePhase>,
    pub(super) default_storage: StoragePhase,
    /// The schema that has the columns of a type, if it was migrated.
    pub(super) columns: HashMap<String, Name>,
    /// The views of these columns, by the schema that has them.
    pub(super) views: BTreeMap<Name, SchemaViews>,
}

/// A partition of the topic that ended before a position: it has lost records that were counted, and new records have got their offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "partition {partition} of the topic ends at offset {end}, before the position {position}: it was created again, or has lost records"
)]
pub struct Truncation {
    /// The partition of the topic.
    pub partition: u16,
    /// The offset at which it ended.
    pub end: u64,
    /// The position.
    pub position: u64,
}

impl Truncation {
    /// The truncation that a field of the stored layout has.
    pub(super) fn parse(partition: &str, value: &str) -> Option<Truncation> {
        let (end, position) = value.split_once(' ')?;
        Some(Truncation {
            partition: partition.parse().ok()?,
            end: end.parse().ok()?,
            position: position.parse().ok()?,
        })
    }
}

impl StoredLayout {
    /// A layout in which all counters are stored in the same way.
    pub fn uniform(
        hash: PartitionHash,
        backend: CounterBackend,
        storage: StoragePhase,
    ) -> StoredLayout {
        StoredLayout {
            hash,
            backend,
            authors: Authors::Event,
            reverse: Vec::new(),
            is_reverse_undecided: false,
            unfinished_reverse: Vec::new(),
            external: Vec::new(),
            counting: String::new(),
            archives: false,
            sinks: false,
            has_topic: false,
            truncations: Vec::new(),
            is_restoring: false,
            epoch: 0,
            can_split: false,
            splits: Splits::default(),
            storages: HashMap::new(),
            default_storage: storage,
            columns: HashMap::new(),
            views: BTreeMap::new(),
        }
    }

    /// Whether changes of counters without an event are appended to the log, too.
    pub fn journals(&self) -> bool {
        self.archives || self.sinks || self.has_topic
    }

    /// Where the topic has lost records that were counted, by partition. Nothing may be appended to it then.
    pub fn truncations(&self) -> &[Truncation] {
        &self.truncations
    }

    /// Whether the facts of a metric are kept for users, too.
    pub fn is_reverse(&self, metric: &Name) -> bool {
        self.reverse.contains(metric)
    }

    /// Whether all facts of a metric are kept for users: none is missing.
    pub fn has_reverse(&self, metric: &Name) -> bool {
        self.is_reverse(metric) && !self.unfinished_reverse.contains(metric)
    }

    /// Whether events of a *once* metric without facts were counted.
    pub fn is_external(&self, metric: &Name) -> bool {
        self.external.contains(metric)
    }

    /// The *once* metrics of which events without facts were counted.
    pub fn external(&self) -> &[Name] {
        &self.external
    }

    /// The state of a split entity.
    pub fn split_of(&self, entity: &Entity) -> Option<&Arc<SplitState>> {
        self.splits.of(entity)
    }

    /// Whether an ID is that of a shard whose entity was merged since, so that nothing is left of it but fences.
    pub fn is_former_shard(&self, etype: &Name, eid: &Id) -> bool {
        self.splits.is_former_shard(etype, eid)
    }

    /// All split entities.
    pub fn splits(&self) -> &BTreeMap<Entity, Arc<SplitState>> {
        self.splits.all()
    }

    /// Whether a migration can change the storage of a type, an adoption that of all data, or a backfill the reverse metrics. `reverse` are the metrics that the
    /// configuration keeps for users: a process that reads the layout again may have to keep those that are not kept yet.
    pub fn can_change(&self, reverse: &[Name]) -> bool {
        let mut phases = self.storages.values().chain([&self.default_storage]);
        let can_migrate = self.backend != CounterBackend::Module
            || phases.any(|phase| *phase != StoragePhase::Table);
        can_migrate || self.can_split || reverse.iter().any(|metric| !self.has_reverse(metric))
    }

    /// How the counters of entities of a type are stored.
    pub fn storage_of(&self, etype: &Name) -> StoragePhase {
        self.storage_of_type(etype.as_str())
    }

    /// The types whose counters a migration of the storage moves, in alphabetical order; `user` is the type of users.
    pub fn moving_types(&self) -> Vec<&str> {
        let storages = self.storages.iter();
        let moving = storages.filter(|(_, phase)| **phase == StoragePhase::Moving);
        let mut types: Vec<&str> = moving.map(|(etype, _)| etype.as_str()).collect();
        types.sort_unstable();
        types
    }

    /// How the counters of users are stored.
    pub fn storage_of_users(&self) -> StoragePhase {
        self.storage_of_type(USER)
    }

    /// How the counters of a type are stored; `user` is the type of users.
    pub fn storage_of_type(&self, etype: &str) -> StoragePhase {
        let storage = self.storages.get(etype);
        storage.copied().unwrap_or(self.default_storage)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields::tests::parse;
    use super::*;

    #[test]
    fn objects_of_the_module_can_move_and_strings_can_be_converted() {
        let can_change = |backend, phase| {
            StoredLayout::uniform(PartitionHash::Murmur2, backend, phase).can_change(&[])
        };
        assert!(can_change(CounterBackend::Module, StoragePhase::Object));
        assert!(can_change(CounterBackend::Module, StoragePhase::Moving));
        assert!(!can_change(CounterBackend::Module, StoragePhase::Table));
        assert!(can_change(CounterBackend::Strings, StoragePhase::Object));
        assert!(can_change(
            CounterBackend::ModuleOrStrings,
            StoragePhase::Object
        ));
    }

    #[test]
    fn a_backfill_changes_data_whose_counters_are_rows() {
        let all_rows = |reverse: &[(&str, &str)]| {
            let mut fields = vec![
                ("partitions", "1024/murmur2"),
                ("hash", "murmur2"),
                ("counters", "module"),
                ("authors", "registry"),
                ("storage:default", "table"),
            ];
            fields.extend(reverse);
            parse(&fields).expect("a layout")
        };
        let like = [Name::new("like").expect("a name")];
        assert!(all_rows(&[]).can_change(&like));
        assert!(all_rows(&[("reverse:like", "backfill")]).can_change(&like));
        assert!(!all_rows(&[("reverse:like", "on")]).can_change(&like));
        assert!(!all_rows(&[("reverse_metrics", "like")]).can_change(&like));
        // A metric that no configuration keeps cannot be added.
        assert!(!all_rows(&[]).can_change(&[]));
    }
}
