//! Adding up a batch: from the entries of a partition to what changes in Redis. Pure: it asks nobody.

use super::batch::UnusableKey;
use super::batch::{Batch, DeadLetter, ObjectLength, PositionUpdate};
use super::position::Position;
use crate::domain::config::{Config, Count, Feed, Role, UserCounter};
use crate::domain::event::{Derived, Envelope, Event, MAX_ADDS, Source};
use crate::domain::ids::{Id, Name};
use crate::domain::keys::{Keys, Partition};
use crate::domain::text::brief;
use crate::log::{EntryKind, LogEntry, MAX_OFFSET};
use crate::storage::schema::Schema;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// The longest derived event, in bytes. Those that countd writes are far shorter.
const MAX_DERIVED: usize = 8 * 1024 * 1024;
/// So many sorts of events are known at a time.
const MAX_SORTS: usize = 64;

/// What counting goes by.
pub struct Rules<'a> {
    /// The metrics and the types of entities.
    pub config: &'a Config,
    /// The layout of the keys.
    pub keys: Keys,
    /// The schemas that the entries name, and those of their types; one that is not here does not exist.
    pub schemas: &'a HashMap<Name, Arc<Schema>>,
    /// Keys that hold something that cannot be counted in: what they would count is dead.
    pub refused: &'a HashMap<String, UnusableKey>,
    /// Ids of envelopes that were counted before.
    pub seen: &'a HashSet<Id>,
    /// DeadLetter letters cannot be written: an entry that would be one holds up its partition.
    pub holds_dead: bool,
}

/// An entry, read.
pub enum DecodedEntry {
    /// An event, and the id of the envelope that it came in.
    Event(Event, Option<Id>),
    /// A derived event.
    Derived(Derived),
    /// Neither, and why.
    Bad(String),
}

/// Reads an entry.
pub fn read(entry: &LogEntry) -> DecodedEntry {
    let is_long = entry.kind == EntryKind::Derived && entry.payload.len() > MAX_DERIVED;
    if is_long || !entry.is_whole {
        return DecodedEntry::Bad(format!("too long: {} bytes", entry.size));
    }
    let parsed = match entry.kind {
        EntryKind::Event => {
            serde_json::from_slice(&entry.payload).map(|event| DecodedEntry::Event(event, None))
        }
        EntryKind::Envelope => serde_json::from_slice(&entry.payload).map(unwrap),
        EntryKind::Derived => serde_json::from_slice(&entry.payload).map(DecodedEntry::Derived),
        EntryKind::Unknown => {
            return DecodedEntry::Bad("an entry with other fields than e, o or d".to_owned());
        }
    };
    parsed.unwrap_or_else(|why| DecodedEntry::Bad(format!("malformed: {}", brief(&why))))
}

fn unwrap(envelope: Envelope<'_>) -> DecodedEntry {
    match envelope.event() {
        Ok(event) => DecodedEntry::Event(event, Some(envelope.event_id)),
        Err(why) => DecodedEntry::Bad(brief(&why)),
    }
}

/// When an entry observe_timestamp, in milliseconds since 1970, if it says so.
pub fn observe_timestamp(entry: &LogEntry) -> Option<u64> {
    match read(entry) {
        DecodedEntry::Event(event, _) => Some(event.ts).filter(|ts| *ts > 0),
        _ => None,
    }
}

/// Whether entities have a counter of this metric.
fn has_counter(metric: &Name, config: &Config) -> bool {
    let metric = config.metrics.get(metric.as_str());
    metric.is_none_or(|(_, metric)| metric.count != Count::Never)
}

/// Whether the entity's counter is still to change.
pub fn is_to_count(event: &Event, config: &Config) -> bool {
    !event.counted && has_counter(&event.metric, config)
}

/// The schema that an event is counted by.
pub fn schema_id<'a>(event: &'a Event, config: &'a Config) -> Option<&'a Name> {
    let of_type = || config.schema_of(&event.entity.etype).flatten();
    event.schema.as_ref().or_else(of_type)
}

/// Adds up entries by some rules.
pub struct Aggregator<'a> {
    rules: Rules<'a>,
    /// What is known of the kinds of events that it has met.
    sorts: Vec<EventClass<'a>>,
    /// Keys are written here.
    key: String,
}

/// Events that are counted in the same way.
struct EventClass<'a> {
    schema: Option<Name>,
    etype: Name,
    metric: Name,
    /// The schema's id, the field and the length of objects; or why there is none.
    field: Result<(&'a Name, usize, ObjectLength), String>,
    /// Whether an event of this sort that does not say it was counted is still to be.
    counts: bool,
    feeds: &'a [Feed],
}

impl<'a> Aggregator<'a> {
    /// Knows the rules and has met nothing.
    pub fn new(rules: Rules<'a>) -> Aggregator<'a> {
        Aggregator {
            rules,
            sorts: Vec::new(),
            key: String::new(),
        }
    }

    /// Adds entries of a partition, which follow on those that the batch has of it, or on its position. If one is to be held back,
    /// returns its offset and why it cannot be counted: it and what is behind it are not added.
    pub fn add(
        &mut self,
        batch: &mut Batch,
        (partition, position): (Partition, &Position),
        entries: Vec<LogEntry>,
        read: &[DecodedEntry],
    ) -> Option<(u64, String)> {
        let last = entries.last()?;
        let next = last.offset + 1;
        let step = batch
            .moves
            .entry(partition)
            .or_insert_with(|| PositionUpdate {
                from: position.next,
                next: position.next,
                fences: BTreeMap::new(),
                bytes: 0,
            });
        let before = step.next;
        step.next = next;
        step.bytes += entries.iter().map(|entry| entry.size as u64).sum::<u64>();
        for (entry, read) in entries.into_iter().zip(read) {
            let at = entry.offset;
            if let Some(reason) = self.add_one(batch, (partition, position), entry, read) {
                // What of the batch is before it counts.
                match batch.moves.get_mut(&partition) {
                    Some(step) if before > step.from || at > step.from => {
                        step.next = at.max(before)
                    }
                    _ => drop(batch.moves.remove(&partition)),
                }
                return Some((at, reason));
            }
        }
        None
    }

    /// Adds an entry, or returns why it is held back.
    fn add_one(
        &mut self,
        batch: &mut Batch,
        (partition, position): (Partition, &Position),
        entry: LogEntry,
        read: &DecodedEntry,
    ) -> Option<String> {
        let result = match read {
            DecodedEntry::Event(_, Some(id))
                if self.rules.seen.contains(id) || batch.ids.contains_key(id) =>
            {
                batch.repeated += 1;
                return None;
            }
            // One that dies is not remembered: it counts when it is brought back.
            DecodedEntry::Event(event, id) => {
                let counted = self.event(batch, partition, event);
                let id = id.iter().filter(|_| counted.is_ok());
                batch.ids.extend(id.map(|id| (id.clone(), partition)));
                counted
            }
            DecodedEntry::Derived(derived) => {
                match self.derived(batch, (partition, position), derived) {
                    Ok(Derivation::Counted(dead)) => {
                        batch.applied += 1;
                        let dead = dead.into_iter().map(|(reason, payload)| DeadLetter {
                            reason,
                            kind: EntryKind::Derived,
                            bytes: payload.len(),
                            payload,
                            partition,
                            offset: entry.offset,
                        });
                        batch.dead.extend(dead);
                        return None;
                    }
                    Ok(Derivation::Repeated) => {
                        batch.repeated += 1;
                        return None;
                    }
                    Ok(Derivation::Held(reason)) => return Some(reason),
                    Err(reason) => Err(reason),
                }
            }
            DecodedEntry::Bad(reason) => Err(reason.clone()),
        };
        match result {
            Ok(()) => batch.applied += 1,
            Err(reason) if self.rules.holds_dead => return Some(reason),
            Err(reason) => {
                let (offset, kind) = (entry.offset, entry.kind);
                let most = self.rules.config.dead.payload_bytes;
                let (payload, bytes) = kept(entry, read, most);
                batch.dead.push(DeadLetter {
                    reason,
                    kind,
                    payload,
                    bytes,
                    partition,
                    offset,
                });
            }
        }
        None
    }

    fn event(
        &mut self,
        batch: &mut Batch,
        partition: Partition,
        event: &Event,
    ) -> Result<(), String> {
        if !event.is_in_range() {
            return Err("delta is out of range".to_owned());
        }
        let keys = self.rules.keys;
        let home = keys.of_entity(&event.entity);
        if home != partition {
            return Err(format!("it belongs to partition {home}"));
        }
        let sort = self.sort(event);
        let EventClass { counts, feeds, .. } = self.sorts[sort];
        let counted = match counts && !event.counted {
            true => Some(self.sorts[sort].field.clone()?),
            false => None,
        };
        // All or nothing of an event: what cannot be counted is found before anything is.
        for (uid, _) in fed(event, feeds) {
            keys.write_user_counters(&mut self.key, uid, keys.of_user(uid));
            self.refuse()?;
        }
        if let Some((schema, idx, length)) = counted {
            keys.write_counters(&mut self.key, schema, &event.entity, home);
            self.refuse()?;
            batch.add(&self.key, length, idx, event.delta);
        }
        for (uid, counter) in fed(event, feeds) {
            let home = keys.of_user(uid);
            // In the same step where the key can be part of it.
            if keys.can_combine(partition, home) {
                keys.write_user_counters(&mut self.key, uid, home);
                batch.add(
                    &self.key,
                    ObjectLength::OF_USERS,
                    counter.index(),
                    event.delta,
                );
            } else {
                batch.forward(home, uid, counter, event.delta);
            }
        }
        batch.observe_timestamp(event.ts);
        Ok(())
    }

    /// Fails if what the key that was written last holds cannot be counted in.
    fn refuse(&self) -> Result<(), String> {
        let key = &self.key;
        match self.rules.refused.get(key) {
            Some(UnusableKey::Type) => Err(format!("{key} holds another type")),
            Some(UnusableKey::Short) => Err(format!(
                "{key} is too short: its schema never had so few counters"
            )),
            None => Ok(()),
        }
    }

    fn sort(&mut self, event: &Event) -> usize {
        let is_it = |sort: &EventClass<'_>| {
            sort.metric == event.metric
                && sort.etype == event.entity.etype
                && sort.schema == event.schema
        };
        if let Some(at) = self.sorts.iter().position(is_it) {
            return at;
        }
        // They may all be different, if somebody means harm.
        if self.sorts.len() == MAX_SORTS {
            self.sorts.clear();
        }
        let metric = self.rules.config.metrics.get(event.metric.as_str());
        self.sorts.push(EventClass {
            schema: event.schema.clone(),
            etype: event.entity.etype.clone(),
            metric: event.metric.clone(),
            field: field(
                event,
                metric.map_or(&event.metric, |(name, _)| name),
                &self.rules,
            ),
            counts: has_counter(&event.metric, self.rules.config),
            feeds: metric.map_or(&[], |(_, metric)| &metric.users),
        });
        self.sorts.len() - 1
    }

    /// Adds a derived event, or returns why it is none.
    fn derived(
        &mut self,
        batch: &mut Batch,
        (partition, position): (Partition, &Position),
        derived: &Derived,
    ) -> Result<Derivation, String> {
        let keys = self.rules.keys;
        if let Some(Source { from, seq }) = derived.source {
            if from >= keys.partitions() {
                return Err(format!("malformed: from: there is no partition {from}"));
            }
            if !(1..=MAX_OFFSET).contains(&seq) {
                return Err(format!("malformed: seq: {seq} is no offset of an outbox"));
            }
            let step = batch.moves.get(&partition);
            let moved = step.and_then(|step| step.fences.get(&from));
            let fence = moved.or_else(|| position.fences.get(&from));
            if fence.is_some_and(|fence| seq < *fence) {
                return Ok(Derivation::Repeated);
            }
        }
        let mut refused: BTreeMap<String, Vec<(Id, UserCounter, i64)>> = BTreeMap::new();
        let mut counted = Vec::with_capacity(derived.adds.len());
        for add in &derived.adds {
            let home = keys.of_user(&add.0);
            keys.write_user_counters(&mut self.key, &add.0, home);
            let fits = match home == partition {
                true => self.refuse(),
                false => Err(format!("it belongs to partition {home}")),
            };
            match fits {
                Ok(()) => counted.push(add),
                Err(reason) => refused.entry(reason).or_default().push(add.clone()),
            }
        }
        if self.rules.holds_dead
            && let Some((reason, _)) = refused.pop_first()
        {
            return Ok(Derivation::Held(reason));
        }
        if let Some(Source { from, seq }) = derived.source
            && let Some(step) = batch.moves.get_mut(&partition)
        {
            step.fences.insert(from, seq + 1);
        }
        for (uid, counter, delta) in counted {
            keys.write_user_counters(&mut self.key, uid, partition);
            batch.add(&self.key, ObjectLength::OF_USERS, counter.index(), *delta);
        }
        // Without its source: it comes back from the dead letters after later ones, which the fence would take for news.
        let mut dead = Vec::new();
        for (reason, adds) in refused {
            for adds in adds.chunks(MAX_ADDS) {
                let rest = Derived {
                    source: None,
                    adds: adds.to_vec(),
                };
                let payload = serde_json::to_vec(&rest).unwrap_or_default();
                dead.push((reason.clone(), payload));
            }
        }
        Ok(Derivation::Counted(dead))
    }
}

/// What becomes of a derived event.
enum Derivation {
    /// It is counted, but for parts that cannot be: why, and what is left of it.
    Counted(Vec<(String, Vec<u8>)>),
    /// It had been counted before.
    Repeated,
    /// A part of it cannot be counted, and it is held back.
    Held(String),
}

/// What is kept of an entry that cannot be counted, and how long that is as a whole. An event can still be counted when its cause
/// is repaired, so all that is known of it is kept; of anything else that is longer than `most` only the start.
fn kept(entry: LogEntry, read: &DecodedEntry, most: usize) -> (Vec<u8>, usize) {
    let LogEntry {
        mut payload, size, ..
    } = entry;
    if entry.is_whole && payload.len() <= most {
        let bytes = payload.len();
        return (payload, bytes);
    }
    if let DecodedEntry::Event(event, id) = read {
        let known = match id {
            Some(id) => event.to_envelope(id, event.metric.as_str()),
            None => event.to_json().into_bytes(),
        };
        let bytes = known.len();
        return (known, bytes);
    }
    payload.truncate(most);
    payload.shrink_to_fit();
    let bytes = size.max(payload.len());
    (payload, bytes)
}

/// The users' counters that an event feeds.
fn fed<'a>(event: &'a Event, feeds: &'a [Feed]) -> impl Iterator<Item = (&'a Id, UserCounter)> {
    feeds
        .iter()
        .filter_map(|feed| Some((user(event, feed.of)?, feed.counter)))
}

/// The user that an event means, if it names him.
fn user(event: &Event, role: Role) -> Option<&Id> {
    match role {
        Role::Actor => Some(&event.uid),
        Role::Target => Some(&event.entity.eid),
        Role::Author => event.author.as_ref(),
    }
}

/// The schema, the field and the length of the object of what an event counts.
fn field<'a>(
    event: &Event,
    metric: &Name,
    rules: &Rules<'a>,
) -> Result<(&'a Name, usize, ObjectLength), String> {
    let etype = &event.entity.etype;
    let id = schema_id(event, rules.config)
        .ok_or_else(|| format!("there is no type of entity {etype}"))?;
    let (id, schema) = rules
        .schemas
        .get_key_value(id)
        .ok_or_else(|| format!("there is no schema {id}"))?;
    let idx = schema.index_of(metric.as_str());
    let idx = idx.ok_or_else(|| format!("schema {id} has no metric {metric}"))?;
    let length = ObjectLength {
        len: schema.len(),
        least: schema.least(),
    };
    Ok((id, idx, length))
}

#[cfg(test)]
mod tests;
