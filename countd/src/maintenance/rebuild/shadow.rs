//! Shadows: what the log has of counters, up to the offsets from which the rebuild continues.

use super::changes::Change;
use super::error::RebuildError;
use crate::consumer::server_history::{self, SERVER_HISTORY};
use crate::domain::error::StoreError;
use crate::domain::ids::{Entity, Name};
use crate::domain::keys::Partition;
use crate::redis::call::RedisCall;
use crate::redis::script::ScriptTemplate;
use crate::redis::store::Store;
use crate::storage::locator::Locator;
use redis::FromRedisValue;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Adds to shadows.
pub(super) static SHADOW: ScriptTemplate =
    ScriptTemplate::writing(&[SERVER_HISTORY, include_str!("../../lua/rebuild_shadow.lua")]);

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["HGETALL {replay_offsets}"];

/// What precedes the number of a partition in the field of its offset in the topic.
const TOPIC: &str = "topic:";
/// The field of the number of parts of the topic that were added.
const PARTS: &str = "parts";

/// What entries add to the counters of an entity.
#[derive(Default)]
pub struct Sums {
    /// Whether the counters were deleted before.
    pub is_new: bool,
    /// By index: what was added, and what was subtracted.
    pub fields: BTreeMap<usize, (u64, u64)>,
}

impl Sums {
    /// Adds to a counter.
    pub fn add(&mut self, idx: usize, delta: i64) {
        let (added, subtracted) = self.fields.entry(idx).or_default();
        match delta >= 0 {
            true => *added += delta.unsigned_abs(),
            false => *subtracted += delta.unsigned_abs(),
        }
    }

    /// The sum of a counter.
    pub fn of(&self, idx: usize) -> i64 {
        self.fields
            .get(&idx)
            .map_or(0, |(added, subtracted)| *added as i64 - *subtracted as i64)
    }
}

/// Whether additions are a part of what a rebuild reads of the topic. Its offsets are recorded at the end: until then, the shadows are
/// incomplete, and the reading begins again if it is interrupted.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Reading {
    /// They are not: the additions have their own offsets.
    #[default]
    None,
    /// More follows.
    Part,
    /// This is the last part.
    End,
}

/// What entries add to counters.
#[derive(Default)]
pub struct Additions {
    /// The part of the topic that they are.
    pub reading: Reading,
    /// By schema and entity.
    pub entities: HashMap<(Name, Entity), Sums>,
    /// The offset after the last entry, by partition.
    pub next: BTreeMap<Partition, u64>,
    /// The offset after the last record of the topic, by partition.
    pub topic: BTreeMap<Partition, u64>,
}

impl Additions {
    /// Adds a change.
    pub fn add(&mut self, change: Change) {
        let sums = self
            .entities
            .entry((change.schema, change.entity))
            .or_default();
        match change.delta {
            Some((idx, delta)) => sums.add(idx, delta),
            None => {
                *sums = Sums {
                    is_new: true,
                    fields: BTreeMap::new(),
                }
            }
        }
    }
}

/// The shadows of all counters.
pub struct Shadows {
    store: Store,
    /// The offset from which each partition continues. None is recorded at the start.
    offsets: BTreeMap<Partition, u64>,
    /// The same in the topic.
    topic: BTreeMap<Partition, u64>,
    /// By the first partition of each Hash of offsets: the number of parts of the topic that were added, 0 after the last one.
    parts: BTreeMap<Partition, u64>,
    /// By the first partition of each Hash of offsets: the history of its server. What was read under another one is not added.
    histories: BTreeMap<Partition, Arc<str>>,
}

impl Shadows {
    /// Loads the offsets.
    ///
    /// # Errors
    /// The store is unavailable, or an offset is damaged.
    pub async fn load(store: &Store) -> Result<Shadows, RebuildError> {
        let keys = store.keys();
        let mut shadows = Shadows::empty(store);
        shadows.load_histories().await?;
        for partition in shadows.groups() {
            let mut cmd = redis::cmd("HGETALL");
            cmd.arg(keys.rebuild_offsets(partition));
            let fields: HashMap<String, String> = cmd.query_async(&mut store.reads()).await?;
            for (field, value) in fields {
                let of_topic = field.strip_prefix(TOPIC);
                let number = of_topic.unwrap_or(&field).parse();
                match (number, value.parse()) {
                    (_, Ok(parts)) if field == PARTS => {
                        shadows.parts.insert(partition, parts);
                    }
                    (Ok(partition), Ok(offset)) if of_topic.is_some() => {
                        shadows.topic.insert(partition, offset);
                    }
                    (Ok(partition), Ok(offset)) => drop(shadows.offsets.insert(partition, offset)),
                    _ => {
                        let problem = format!("field {field} of countd:rebuild:pos is damaged");
                        return Err(StoreError::Unexpected(problem).into());
                    }
                }
            }
        }
        Ok(shadows)
    }

    /// No shadows. Nothing is recorded.
    pub fn empty(store: &Store) -> Shadows {
        Shadows {
            store: store.clone(),
            offsets: BTreeMap::new(),
            topic: BTreeMap::new(),
            parts: BTreeMap::new(),
            histories: BTreeMap::new(),
        }
    }

    /// The first partition of each Hash of offsets.
    fn groups(&self) -> Vec<Partition> {
        let keys = self.store.keys();
        let hashes = if keys.tagged() { keys.partitions() } else { 1 };
        (0..hashes).collect()
    }

    /// Loads the histories of the servers. What is added from now on was read later.
    ///
    /// # Errors
    /// The store is unavailable.
    pub async fn load_histories(&mut self) -> Result<(), RebuildError> {
        let groups = self.groups();
        let histories = server_history::load(&self.store, &groups).await?;
        self.histories = groups.into_iter().zip(histories).collect();
        Ok(())
    }

    /// Lets a partition begin at an offset, which is not recorded.
    pub fn start_at(&mut self, partition: Partition, offset: u64) {
        self.offsets.insert(partition, offset);
    }

    /// Lets a partition begin at an offset of the topic, which is not recorded.
    pub fn start_topic_at(&mut self, partition: Partition, offset: u64) {
        self.topic.insert(partition, offset);
    }

    /// Whether the recorded offsets of a partition, in its log and in the topic, are those that this process knows.
    pub fn are_at(&self, partition: Partition, recorded: &(String, String)) -> bool {
        let is = |known: Option<&u64>, recorded: &str| match known {
            Some(known) => recorded.parse() == Ok(*known),
            None => recorded.is_empty(),
        };
        is(self.offsets.get(&partition), &recorded.0) && is(self.topic.get(&partition), &recorded.1)
    }

    /// Whether the reading of the topic was interrupted.
    pub fn are_incomplete(&self) -> bool {
        self.parts.values().any(|parts| *parts > 0)
    }

    /// The offset in the topic of the next record of a partition.
    pub fn next_topic(&self, partition: Partition) -> u64 {
        self.topic.get(&partition).copied().unwrap_or(0)
    }

    /// The offsets of all partitions in the topic.
    pub fn topic_offsets(&self) -> &BTreeMap<Partition, u64> {
        &self.topic
    }

    /// The offsets of all partitions.
    pub fn offsets(&self) -> &BTreeMap<Partition, u64> {
        &self.offsets
    }

    /// The offset of the next entry of a partition, if one is recorded.
    pub fn recorded(&self, partition: Partition) -> Option<u64> {
        self.offsets.get(&partition).copied()
    }

    /// The offset of the next entry of a partition.
    pub fn next(&self, partition: Partition) -> u64 {
        self.recorded(partition).unwrap_or(1)
    }

    /// Adds to the shadows, and advances the offsets, in one step for each slot. It is repeated after an error.
    ///
    /// # Errors
    /// The store is unavailable, a migration moves counters, or another rebuild runs.
    pub async fn add(&mut self, additions: Additions) -> Result<(), RebuildError> {
        let keys = self.store.keys();
        let group = |partition: Partition| if keys.tagged() { partition } else { 0 };
        let mut groups: BTreeMap<Partition, Additions> = BTreeMap::new();
        for (partition, next) in additions.topic {
            let additions = groups.entry(group(partition)).or_default();
            additions.topic.insert(partition, next);
        }
        for (partition, next) in additions.next {
            let additions = groups.entry(group(partition)).or_default();
            additions.next.insert(partition, next);
        }
        for ((schema, entity), sums) in additions.entities {
            let additions = groups.entry(group(keys.of_entity(&entity))).or_default();
            additions.entities.insert((schema, entity), sums);
        }
        for (group, mut of_group) in groups {
            of_group.reading = additions.reading;
            self.add_group(group, &of_group).await?;
        }
        Ok(())
    }

    /// The fields of the progress that additions change: name, expected and new value.
    fn progress(&self, group: Partition, additions: &Additions) -> Vec<(String, String, u64)> {
        let text = |value: Option<&u64>| value.map(u64::to_string).unwrap_or_default();
        let entries = additions.next.iter().map(|(partition, next)| {
            let expected = text(self.offsets.get(partition));
            (partition.to_string(), expected, *next)
        });
        let records = additions.topic.iter().map(|(partition, next)| {
            let expected = text(self.topic.get(partition));
            (format!("{TOPIC}{partition}"), expected, *next)
        });
        let parts = self.parts.get(&group);
        let part = match additions.reading {
            Reading::None => None,
            Reading::Part => Some(parts.unwrap_or(&0) + 1),
            Reading::End => Some(0),
        };
        let part = part.map(|part| (PARTS.to_owned(), text(parts), part));
        entries.chain(records).chain(part).collect()
    }

    async fn add_group(
        &mut self,
        group: Partition,
        additions: &Additions,
    ) -> Result<(), RebuildError> {
        let (keys, locator) = (self.store.keys(), Locator::of(&self.store));
        let mut entities = Vec::with_capacity(additions.entities.len());
        let (mut names, mut indexes) = (Vec::new(), HashMap::new());
        for ((schema, entity), sums) in &additions.entities {
            let at = locator.entity(schema, entity);
            let shadow = keys.shadow_of(&at);
            let shadow = shadow.ok_or_else(|| RebuildError::Moving(entity.etype.clone()))?;
            let index = *indexes.entry(shadow.key().to_owned()).or_insert_with(|| {
                names.push(shadow.key().to_owned());
                names.len()
            });
            entities.push((index, shadow.row(), sums));
        }
        let progress = self.progress(group, additions);
        let all: Vec<String> = std::iter::once(keys.rebuild_offsets(group))
            .chain(names)
            .collect();
        let mut call = RedisCall::script(SHADOW.on(self.store.backend()), &all);
        let history = self.histories.get(&group).map_or("", |history| history);
        call.cmd.arg(history).arg(progress.len());
        for (field, expected, new) in &progress {
            call.cmd.arg(field).arg(expected).arg(*new);
        }
        for (index, row, sums) in entities {
            let columns = sums.fields.iter().flat_map(|(idx, (added, subtracted))| {
                [(2 * idx, *added), (2 * idx + 1, *subtracted)]
            });
            let columns: Vec<(usize, u64)> = columns.filter(|(_, sum)| *sum > 0).collect();
            let len = columns.last().map_or(1, |(idx, _)| idx + 1);
            call.cmd
                .arg(index)
                .arg(row.map(|row| row.to_string()).unwrap_or_default())
                .arg(len)
                .arg(u8::from(sums.is_new))
                .arg(2 * columns.len());
            for (idx, sum) in columns {
                call.cmd.arg(idx).arg(sum);
            }
        }
        let is_added = bool::from_redis_value(call.send(&self.store).await?);
        match is_added.map_err(|error| StoreError::Unexpected(error.to_string()))? {
            true => {
                self.offsets.extend(&additions.next);
                self.topic.extend(&additions.topic);
                let part = progress.iter().find(|(field, ..)| field == PARTS);
                self.parts.extend(part.map(|(_, _, part)| (group, *part)));
                Ok(())
            }
            // The call may have been executed before its reply was lost, or the server may have lost what was read.
            false => Err(RebuildError::Elsewhere),
        }
    }
}

/// The sum of a counter in the fields of a shadow.
pub fn shadow_sum(shadow: &[u64], idx: usize) -> i64 {
    let field = |idx: usize| shadow.get(idx).copied().unwrap_or(0) as i64;
    field(2 * idx) - field(2 * idx + 1)
}
