//! Adding up a batch: from the entries of a partition to what changes in Redis. Pure: it asks nobody.

use super::position::Position;
use crate::config::{Config, Count, Role, UserCounter};
use crate::event::{Derived, Envelope, Event};
use crate::ids::{Id, Name};
use crate::keys::{Keys, Partition};
use crate::log::{Entry, Kind};
use crate::schema::Schema;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// What counting goes by.
pub struct Rules<'a> {
    /// The metrics and the types of entities.
    pub config: &'a Config,
    /// The layout of the keys.
    pub keys: Keys,
    /// The schemas that the entries name, and those of their types; one that is not here does not exist.
    pub schemas: &'a HashMap<Name, Arc<Schema>>,
    /// Keys of counters that hold something else: what they would count is dead.
    pub refused: &'a HashSet<String>,
    /// Ids of envelopes that were counted before.
    pub seen: &'a HashSet<Id>,
}

/// An entry, read.
pub enum Read {
    /// An event, and the id of the envelope that it came in.
    Event(Event, Option<Id>),
    /// A derived event.
    Derived(Derived),
    /// Neither, and why.
    Bad(String),
}

/// Reads an entry.
pub fn read(entry: &Entry) -> Read {
    let parsed = match entry.kind {
        Kind::Event => serde_json::from_slice(&entry.payload).map(|event| Read::Event(event, None)),
        Kind::Envelope => serde_json::from_slice(&entry.payload).map(unwrap),
        Kind::Derived => serde_json::from_slice(&entry.payload).map(Read::Derived),
        Kind::Unknown => return Read::Bad("an entry with other fields than e, o or d".to_owned()),
    };
    parsed.unwrap_or_else(|why| Read::Bad(format!("malformed: {why}")))
}

fn unwrap(envelope: Envelope) -> Read {
    match envelope.event() {
        Ok(event) => Read::Event(event, Some(envelope.event_id)),
        Err(why) => Read::Bad(why.to_string()),
    }
}

/// When an entry happened, in milliseconds since 1970, if it says so.
pub fn happened(entry: &Entry) -> Option<u64> {
    match read(entry) {
        Read::Event(event, _) => Some(event.ts).filter(|ts| *ts > 0),
        _ => None,
    }
}

/// Whether the entity's counter is still to change.
pub fn is_to_count(event: &Event, config: &Config) -> bool {
    let metric = config.metrics.get(event.metric.as_str());
    !event.counted && metric.is_none_or(|(_, metric)| metric.count != Count::Never)
}

/// The schema that an event is counted by.
pub fn schema_id<'a>(event: &'a Event, config: &'a Config) -> Option<&'a Name> {
    let of_type = || config.schema_of(&event.entity.etype).flatten();
    event.schema.as_ref().or_else(of_type)
}

/// Something that cannot be counted.
#[derive(Debug, PartialEq, Eq)]
pub struct Dead {
    /// Why.
    pub reason: String,
    /// What it is.
    pub kind: Kind,
    /// As it was; of a derived event only the part that cannot be counted.
    pub payload: Vec<u8>,
    /// Where it was.
    pub offset: u64,
}

/// The fields of an object that change, and how many fields it has at least.
#[derive(Debug, PartialEq, Eq)]
pub struct Changes {
    /// How many fields.
    pub len: usize,
    /// What each gets.
    pub deltas: BTreeMap<usize, i64>,
}

/// A batch, added up.
#[derive(Debug, Default)]
pub struct Batch {
    /// The offset behind its last entry.
    pub next: u64,
    /// What the objects of this partition get.
    pub counters: BTreeMap<String, Changes>,
    /// What users of each partition get.
    pub outbox: BTreeMap<Partition, BTreeMap<(Id, UserCounter), i64>>,
    /// What cannot be counted.
    pub dead: Vec<Dead>,
    /// Fences that moved.
    pub fences: BTreeMap<Partition, u64>,
    /// The ids of the envelopes that are counted.
    pub ids: BTreeSet<Id>,
    /// How many entries were counted.
    pub applied: u64,
    /// How many derived events and envelopes had been counted before.
    pub repeated: u64,
    /// When the oldest of its events happened, in milliseconds since 1970.
    pub oldest: Option<u64>,
}

impl Batch {
    /// Adds up the entries of a partition.
    pub fn of(
        partition: Partition,
        position: &Position,
        entries: &[Entry],
        read: &[Read],
        rules: &Rules<'_>,
    ) -> Batch {
        let mut batch = Batch {
            next: entries
                .last()
                .map_or(position.next, |entry| entry.offset + 1),
            ..Batch::default()
        };
        for (entry, read) in entries.iter().zip(read) {
            let result = match read {
                Read::Event(_, Some(id)) if rules.seen.contains(id) || batch.ids.contains(id) => {
                    batch.repeated += 1;
                    continue;
                }
                // One that dies is not remembered: it counts when it is brought back.
                Read::Event(event, id) => batch.event(partition, event, rules).inspect(|()| {
                    batch.ids.extend(id.clone());
                }),
                Read::Derived(derived) => {
                    batch.derived(partition, position, entry, derived, rules);
                    continue;
                }
                Read::Bad(reason) => Err(reason.clone()),
            };
            match result {
                Ok(()) => batch.applied += 1,
                Err(reason) => batch.dead.push(Dead {
                    reason,
                    kind: entry.kind,
                    payload: entry.payload.clone(),
                    offset: entry.offset,
                }),
            }
        }
        batch
    }

    fn event(
        &mut self,
        partition: Partition,
        event: &Event,
        rules: &Rules<'_>,
    ) -> Result<(), String> {
        if !event.is_in_range() {
            return Err("delta is out of range".to_owned());
        }
        let home = rules.keys.of_entity(&event.entity);
        if home != partition {
            return Err(format!("it belongs to partition {home}"));
        }
        let metric = rules.config.metrics.get(event.metric.as_str());
        let counted = match is_to_count(event, rules.config) {
            true => Some(counter(
                event,
                metric.map_or(&event.metric, |(name, _)| name),
                rules,
            )?),
            false => None,
        };
        let feeds = metric.iter().flat_map(|(_, metric)| &metric.users);
        let fed: Vec<_> = feeds
            .filter_map(|feed| Some((user(event, feed.of)?, feed.counter)))
            .collect();
        // All or nothing of an event: what cannot be counted is found before anything is.
        for (uid, _) in &fed {
            let key = rules.keys.user_counters(uid);
            if rules.refused.contains(&key) {
                return Err(of_another_type(&key));
            }
        }
        if let Some((key, idx, len)) = counted {
            self.add(key, len, idx, event.delta);
        }
        for (uid, user_counter) in fed {
            self.feed(partition, (uid, user_counter), event.delta, rules.keys);
        }
        self.oldest = match (self.oldest, event.ts) {
            (oldest, 0) => oldest,
            (Some(oldest), ts) => Some(oldest.min(ts)),
            (None, ts) => Some(ts),
        };
        Ok(())
    }

    fn add(&mut self, key: String, len: usize, idx: usize, delta: i64) {
        let changes = self.counters.entry(key).or_insert_with(|| Changes {
            len,
            deltas: BTreeMap::new(),
        });
        let sum = changes.deltas.entry(idx).or_default();
        *sum = sum.saturating_add(delta);
    }

    /// A user's counter is counted in the same step where its key can be part of it, else it goes through the outbox.
    fn feed(
        &mut self,
        partition: Partition,
        (uid, counter): (&Id, UserCounter),
        delta: i64,
        keys: Keys,
    ) {
        let home = keys.of_user(uid);
        if keys.meet(partition, home) {
            self.add(
                keys.user_counters(uid),
                UserCounter::ALL.len(),
                counter.index(),
                delta,
            );
            return;
        }
        let users = self.outbox.entry(home).or_default();
        // Ten thousand events of at most 2^40: far from the limits of 64 bits.
        *users.entry((uid.clone(), counter)).or_default() += delta;
    }

    fn derived(
        &mut self,
        partition: Partition,
        position: &Position,
        entry: &Entry,
        derived: &Derived,
        rules: &Rules<'_>,
    ) {
        if let Some(source) = derived.source {
            let moved = self.fences.get(&source.from);
            let fence = moved.or_else(|| position.fences.get(&source.from));
            if fence.is_some_and(|fence| source.seq < *fence) {
                self.repeated += 1;
                return;
            }
            self.fences
                .insert(source.from, source.seq.saturating_add(1));
        }
        let mut refused: BTreeMap<String, Vec<(Id, UserCounter, i64)>> = BTreeMap::new();
        for add in &derived.adds {
            let (uid, user_counter, delta) = add;
            let key = rules.keys.user_counters(uid);
            let home = rules.keys.of_user(uid);
            if home != partition {
                let reason = format!("it belongs to partition {home}");
                refused.entry(reason).or_default().push(add.clone());
            } else if rules.refused.contains(&key) {
                refused
                    .entry(of_another_type(&key))
                    .or_default()
                    .push(add.clone());
            } else {
                self.add(key, UserCounter::ALL.len(), user_counter.index(), *delta);
            }
        }
        self.applied += 1;
        for (reason, adds) in refused {
            // Without its source: it comes back from the dead letters after later ones, which the fence would take for news.
            let rest = Derived { source: None, adds };
            self.dead.push(Dead {
                reason,
                kind: Kind::Derived,
                payload: serde_json::to_vec(&rest).unwrap_or_default(),
                offset: entry.offset,
            });
        }
    }
}

/// The user that an event means, if it names him.
fn user(event: &Event, role: Role) -> Option<&Id> {
    match role {
        Role::Actor => Some(&event.uid),
        Role::Target => Some(&event.entity.eid),
        Role::Author => event.author.as_ref(),
    }
}

/// The key, field and length of what an event counts.
fn counter(
    event: &Event,
    metric: &Name,
    rules: &Rules<'_>,
) -> Result<(String, usize, usize), String> {
    let etype = &event.entity.etype;
    let id = schema_id(event, rules.config)
        .ok_or_else(|| format!("there is no type of entity {etype}"))?;
    let schema = rules
        .schemas
        .get(id)
        .ok_or_else(|| format!("there is no schema {id}"))?;
    let idx = schema.index_of(metric.as_str());
    let idx = idx.ok_or_else(|| format!("schema {id} has no metric {metric}"))?;
    let key = rules.keys.counters(id, &event.entity);
    if rules.refused.contains(&key) {
        return Err(of_another_type(&key));
    }
    Ok((key, idx, schema.len()))
}

fn of_another_type(key: &str) -> String {
    format!("{key} holds another type")
}

#[cfg(test)]
mod tests;
