//! Reads counters and their shadows in one step, and what the log has changed since the offset of the shadows.

use super::changes::Changes;
use super::error::{RebuildError, unexpected};
use super::shadow::{Additions, Shadows, Sums, shadow_sum};
use super::state::Cut;
use super::topic::TopicSource;
use crate::consumer::server_history::SERVER_HISTORY;
use crate::domain::ids::{Entity, Name};
use crate::domain::keys::Partition;
use crate::log::archive::Record;
use crate::log::{Streams, renumber};
use crate::redis::call::RedisCall;
use crate::redis::script::ScriptTemplate;
use crate::redis::store::Store;
use crate::storage::locator::Locator;
use redis::{FromRedisValue, Value};
use std::collections::{BTreeMap, HashMap};

/// Reads counters.
pub(super) static OBSERVE: ScriptTemplate = ScriptTemplate::reading(&[
    SERVER_HISTORY,
    include_str!("../../lua/rebuild_observe.lua"),
]);

/// The number of entries behind the position at which the shadows are advanced first.
const MAX_TAIL: u64 = 5_000;
/// The maximum value of a counter.
pub const MAX: i64 = (1 << 40) - 1;

/// The counters of an entity as they were observed.
pub struct Row {
    /// The entity.
    pub entity: Entity,
    /// 0 if it has no counters, 1 if it has, 2 if their key has another type.
    pub state: u8,
    /// The counters.
    pub counters: Vec<u64>,
    /// Its shadow.
    pub shadow: Vec<u64>,
    /// What the log has after the offset of the shadow.
    pub tail: Sums,
    /// After an erasure: the offset of the first record of the topic that was not counted before it.
    pub erased: u64,
}

impl Row {
    /// What a counter has to be.
    pub fn expected(&self, idx: usize) -> i64 {
        let before = match self.tail.is_new {
            true => 0,
            false => shadow_sum(&self.shadow, idx),
        };
        // It is negative if the counter was too large when it was reset.
        (before + self.tail.of(idx)).clamp(0, MAX)
    }

    /// The counters are deleted. The shadow of data with a topic may include the erasure already: records before `counted`, from which on the
    /// erased entity has others, were left out of a shadow that is beyond it.
    fn erase(&mut self, counted: Option<u64>, shadow: u64) {
        self.tail = Sums {
            is_new: self.tail.is_new || counted.is_none_or(|counted| counted >= shadow),
            ..Sums::default()
        };
        self.erased = counted.unwrap_or(0);
    }

    /// What a counter was.
    pub fn actual(&self, idx: usize) -> i64 {
        self.counters.get(idx).copied().unwrap_or(0) as i64
    }
}

/// What was read of a partition in one step.
pub struct Observation {
    /// The offset of the next entry to be counted.
    pub position: u64,
    /// The last offset of the log.
    pub last: u64,
    /// The offset in the topic of the next record to be counted.
    pub topic: u64,
    /// The last ID of the audit.
    pub last_audit: String,
    /// The history of the server.
    pub history: String,
    /// The entities.
    pub rows: Vec<Row>,
}

/// Observes counters of partitions.
pub struct Observer {
    pub(super) store: Store,
    pub(super) log: Streams,
    pub changes: Changes,
    /// What is read of the topic, for data that has one.
    pub topic: Option<TopicSource>,
    /// Whether the shadows are advanced when they are far behind.
    pub catches_up: bool,
    /// The first offset of each log that is kept.
    pub holds: HashMap<Partition, u64>,
    /// Whether all entries from these offsets on have to be there. An archive is checked for gaps when it is opened.
    pub refuses_gaps: bool,
}

impl Observer {
    pub fn new(store: Store, log: Streams, changes: Changes) -> Observer {
        Observer {
            store,
            log,
            changes,
            topic: None,
            catches_up: true,
            holds: HashMap::new(),
            refuses_gaps: false,
        }
    }

    /// Begins to read data with a topic, after these cuts.
    pub(super) fn begin_after(&mut self, cuts: &BTreeMap<Partition, Cut>) {
        self.holds = cuts.iter().map(|(p, cut)| (*p, cut.published)).collect();
        self.refuses_gaps = true;
    }

    /// Observes counters of entities of a partition, and sums up what the log has changed of them since the offset of the shadows.
    ///
    /// # Errors
    /// The store is unavailable, entries may have been trimmed, or a migration moves the counters.
    pub async fn observe(
        &mut self,
        shadows: &mut Shadows,
        partition: Partition,
        (schema, entities): (&Name, &[Entity]),
    ) -> Result<Observation, RebuildError> {
        self.bound_tails(shadows).await?;
        let mut observation = self.read(shadows, partition, (schema, entities)).await?;
        if self.catches_up && observation.position > shadows.next(partition) + MAX_TAIL {
            self.catch_up(shadows, partition).await?;
            observation = self.read(shadows, partition, (schema, entities)).await?;
        }
        self.add_tail(shadows, partition, (schema, &mut observation))
            .await?;
        self.add_topic_tail(shadows, partition, (schema, &mut observation))
            .await?;
        Ok(observation)
    }

    /// Reads counters, without what the log has.
    async fn read(
        &self,
        shadows: &Shadows,
        partition: Partition,
        (schema, entities): (&Name, &[Entity]),
    ) -> Result<Observation, RebuildError> {
        let (keys, locator) = (self.store.keys(), Locator::of(&self.store));
        let mut all = vec![
            keys.position(partition),
            keys.log(partition),
            keys.audit(partition),
            keys.archive_hold(partition),
            keys.rebuild_offsets(partition),
        ];
        let mut indexes: HashMap<String, usize> = HashMap::new();
        let mut places = Vec::with_capacity(entities.len());
        for entity in entities {
            let at = locator.entity(schema, entity);
            let shadow = keys.shadow_of(&at);
            let shadow = shadow.ok_or_else(|| RebuildError::Moving(entity.etype.clone()))?;
            let mut index = |key: &str| {
                *indexes.entry(key.to_owned()).or_insert_with(|| {
                    all.push(key.to_owned());
                    all.len() - 5
                })
            };
            let row = at.row().map(|row| row.to_string()).unwrap_or_default();
            places.push((index(at.key()), index(shadow.key()), row));
        }
        let mut call = RedisCall::script(OBSERVE.on(self.store.backend()), &all);
        call.cmd.arg(partition);
        for (at, shadow, row) in places {
            call.cmd.arg(at).arg(shadow).arg(row);
        }
        loop {
            let reply = call.send(&self.store).await?;
            let mut reply = Vec::<Value>::from_redis_value(reply)
                .map_err(unexpected)?
                .into_iter();
            let mut text = || {
                let value = reply.next().unwrap_or(Value::Nil);
                String::from_redis_value(value).map_err(unexpected)
            };
            let (position, last, last_audit, hold) = (text()?, text()?, text()?, text()?);
            let topic = text()?.parse().map_err(unexpected)?;
            let recorded = (text()?, text()?);
            let history = text()?;
            if hold.parse().ok() != self.holds.get(&partition).copied() {
                return Err(RebuildError::HoldLost);
            }
            // A baseline records none.
            if self.catches_up && !shadows.are_at(partition, &recorded) {
                return Err(RebuildError::Elsewhere);
            }
            let offset = last.strip_prefix("0-").and_then(|last| last.parse().ok());
            let Some(last) = offset else {
                renumber(&self.store, partition).await?;
                continue;
            };
            let mut rows = Vec::with_capacity(entities.len());
            for entity in entities {
                let mut value = || reply.next().unwrap_or(Value::Nil);
                rows.push(Row {
                    entity: entity.clone(),
                    state: u8::from_redis_value(value()).map_err(unexpected)?,
                    counters: Vec::from_redis_value(value()).map_err(unexpected)?,
                    shadow: Vec::from_redis_value(value()).map_err(unexpected)?,
                    tail: Sums::default(),
                    erased: 0,
                });
            }
            return Ok(Observation {
                position: position.parse().map_err(unexpected)?,
                last,
                topic,
                last_audit,
                history,
                rows,
            });
        }
    }

    /// The offset of the next entry of a partition to be counted.
    pub async fn position(
        &self,
        shadows: &Shadows,
        partition: Partition,
    ) -> Result<u64, RebuildError> {
        Ok(self.read_positions(shadows, partition).await?.position)
    }

    /// Reads how far a partition is counted.
    pub(super) async fn read_positions(
        &self,
        shadows: &Shadows,
        partition: Partition,
    ) -> Result<Observation, RebuildError> {
        let nothing = Name::new("none").map_err(unexpected)?;
        self.read(shadows, partition, (&nothing, &[])).await
    }

    /// Advances the shadows of a partition to its position.
    pub async fn catch_up(
        &mut self,
        shadows: &mut Shadows,
        partition: Partition,
    ) -> Result<(), RebuildError> {
        if self.topic.is_some() {
            return self.fold_topic(shadows, partition).await;
        }
        let position = self.position(shadows, partition).await?;
        if shadows.next(partition) >= position {
            return Ok(());
        }
        let outcomes = self.outcomes(partition).await?;
        loop {
            let from = shadows.next(partition);
            if from >= position {
                return Ok(());
            }
            let (records, is_end) = self.records(partition, from, &outcomes).await?;
            let counted = records
                .iter()
                .filter(|record| record.entry.offset < position);
            let mut additions = Additions::default();
            for record in counted {
                self.add(&mut additions, record).await?;
            }
            let last = records.last().map_or(from, |record| record.entry.offset);
            let next = match is_end || last >= position {
                true => position,
                false => last + 1,
            };
            additions.next.insert(partition, next);
            shadows.add(additions).await?;
        }
    }

    /// Adds what a counted entry has changed.
    pub async fn add(
        &mut self,
        additions: &mut Additions,
        record: &Record,
    ) -> Result<(), RebuildError> {
        for change in self.changes.of(record).await? {
            additions.add(change);
        }
        Ok(())
    }

    /// Sums up what the entries after the offset of the shadows have changed of what was observed: counted events, and entries whose step
    /// has changed counters.
    async fn add_tail(
        &mut self,
        shadows: &Shadows,
        partition: Partition,
        (schema, observation): (&Name, &mut Observation),
    ) -> Result<(), RebuildError> {
        let (mut from, end) = (shadows.next(partition), observation.last + 1);
        let end = end.max(observation.position);
        if from >= end {
            return Ok(());
        }
        let outcomes = self.outcomes(partition).await?;
        let rows = observation.rows.iter_mut();
        let mut rows: HashMap<Entity, &mut Row> =
            rows.map(|row| (row.entity.clone(), row)).collect();
        while from < end {
            let (records, is_end) = self.records(partition, from, &outcomes).await?;
            for record in records.iter().filter(|record| record.entry.offset < end) {
                let is_counted = record.entry.offset < observation.position;
                for change in self.changes.of(record).await? {
                    let row = rows.get_mut(&change.entity);
                    let (Some(row), true, true) =
                        (row, change.schema == *schema, is_counted || change.at_once)
                    else {
                        continue;
                    };
                    match change.delta {
                        Some((idx, delta)) => row.tail.add(idx, delta),
                        None => row.erase(change.topic, shadows.next_topic(partition)),
                    }
                }
            }
            let last = records.last().map_or(from, |record| record.entry.offset);
            from = if is_end { end } else { last + 1 };
        }
        Ok(())
    }
}
