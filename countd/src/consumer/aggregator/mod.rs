//! Aggregates the entries of a partition into a batch. No I/O.

mod check;
mod counting_rule;
mod records;

use super::authors::add_new_author;
use super::batch::{Batch, PositionUpdate};
use super::dead_letter::{DeadLetter, preserve_payload};
use super::decoder::{DecodedEntry, ReadFacts};
use super::derived::{DerivedOutcome, add_derived};
use super::increments::Increments;
use super::journal::add_journal;
use super::position::Position;
use super::rules::Rules;
use super::timeline_rule::TimelineRule;
use super::timelines::Change;
use crate::domain::day::Calendar;
use crate::domain::event::{Event, now_ms};
use crate::domain::event_class::EventClassCache;
use crate::domain::ids::Id;
use crate::domain::keys::Partition;
use crate::domain::split::base_of;
use crate::log::archive::Outcome;
use crate::log::{EntryKind, LogEntry};
use check::add_check;
use counting_rule::CountingRule;

/// An entry that would become a dead letter while dead letters cannot be written. It blocks its partition.
#[derive(Debug, PartialEq, Eq)]
pub struct HeldEntry {
    /// The offset of the entry.
    pub offset: u64,
    /// Why it cannot be counted.
    pub reason: String,
}

/// What is done with an event.
#[derive(Clone, Copy)]
enum Visit {
    /// Its keys are checked.
    Check,
    /// They are checked, and it is added.
    Add,
}

/// Adds decoded entries to a batch.
pub struct Aggregator<'a> {
    increments: Increments<'a>,
    calendar: Calendar,
    /// The current time in milliseconds since 1970.
    now: u64,
    counting_rules: EventClassCache<CountingRule<'a>>,
    /// Whether the entries are records of the topic.
    is_topic: bool,
}

impl<'a> Aggregator<'a> {
    /// An aggregator with an empty cache of event classes.
    pub fn new(rules: Rules<'a>, batch: &'a mut Batch) -> Aggregator<'a> {
        Aggregator {
            calendar: rules.config.days.calendar(),
            now: now_ms(),
            increments: Increments::new(rules, batch),
            counting_rules: EventClassCache::new(),
            is_topic: false,
        }
    }

    /// Adds the next entries of a partition to the batch. The first of them follows the partition's last entry in the batch, or
    /// starts at its position if the batch has none.
    ///
    /// Stops at an entry that must be held, and returns it. That entry and all later entries are not added.
    pub fn add_entries(
        &mut self,
        (partition, position): (Partition, &Position),
        entries: Vec<LogEntry>,
        decoded: &[DecodedEntry],
    ) -> Option<HeldEntry> {
        let last = entries.last()?;
        let next = last.offset + 1;
        let update = self
            .increments
            .batch
            .positions
            .entry(partition)
            .or_insert_with(|| PositionUpdate::at(position));
        let next_before = update.next;
        update.next = next;
        update.bytes += entries.iter().map(|entry| entry.size as u64).sum::<u64>();
        for (entry, decoded) in entries.into_iter().zip(decoded) {
            let offset = entry.offset;
            let added = self.add_entry((partition, position), entry, decoded);
            if let Err(held) = added {
                // The entries before it are committed.
                let positions = &mut self.increments.batch.positions;
                match positions.get_mut(&partition) {
                    Some(update) if next_before > update.from || offset > update.from => {
                        update.next = offset.max(next_before)
                    }
                    Some(update) if update.topic.is_some() => update.next = next_before,
                    _ => drop(positions.remove(&partition)),
                }
                return Some(held);
            }
        }
        None
    }

    fn add_entry(
        &mut self,
        source: (Partition, &Position),
        entry: LogEntry,
        decoded: &DecodedEntry,
    ) -> Result<(), HeldEntry> {
        let (partition, offset) = (source.0, entry.offset);
        let added = match decoded {
            DecodedEntry::Event(_, Some(id)) if self.is_duplicate(id) => {
                self.increments.batch.duplicates += 1;
                self.record_outcome((partition, offset), Outcome::Duplicate);
                return Ok(());
            }
            DecodedEntry::Event(event, envelope_id) => {
                // An envelope has no fact.
                let is_fact = envelope_id.is_none() && matches!(event.delta, 1 | -1);
                let checked = self.check_event_set(partition, envelope_id.as_ref());
                let added = checked.and_then(|()| self.add_event(partition, event, is_fact));
                self.announce(partition, event, added.is_ok());
                if added.is_ok() {
                    self.increments.batch.sample(&event.entity);
                }
                // The id of a dead letter is not remembered: the event has to count when it is retried.
                if let (Ok(()), Some(id)) = (&added, envelope_id) {
                    let Increments { rules, batch, .. } = &mut self.increments;
                    batch.envelope_ids.insert(id.clone(), partition);
                    let metric = rules.config.metrics.get(event.metric.as_str());
                    if let Some((name, metric)) = metric
                        && metric.fact_kind().is_some()
                    {
                        batch.checks.add_external(name);
                    }
                }
                added
            }
            DecodedEntry::Group(events) => return self.add_group((partition, offset), events),
            DecodedEntry::Derived(derived) => {
                match add_derived(&mut self.increments, source, derived) {
                    Ok(DerivedOutcome::Added(dead_letters)) => {
                        for (reason, payload) in dead_letters {
                            self.increments.batch.dead_letters.push(DeadLetter {
                                reason,
                                kind: EntryKind::Derived,
                                full_len: payload.len(),
                                payload,
                                partition,
                                offset,
                            });
                        }
                        Ok(())
                    }
                    Ok(DerivedOutcome::Duplicate) => {
                        self.increments.batch.duplicates += 1;
                        self.record_outcome((partition, offset), Outcome::Duplicate);
                        return Ok(());
                    }
                    Ok(DerivedOutcome::Held(reason)) => return Err(HeldEntry { offset, reason }),
                    Err(reason) => Err(reason),
                }
            }
            DecodedEntry::Author(new) => add_new_author(&mut self.increments, partition, new),
            DecodedEntry::Facts(facts) => self.add_facts(partition, facts),
            DecodedEntry::Check(check) => add_check(&mut self.increments, partition, check),
            DecodedEntry::Reread(_) => Err("its facts were not read".to_owned()),
            DecodedEntry::Journal(journal) => {
                add_journal(&mut self.increments, partition, journal, false)
            }
            DecodedEntry::JournalToApply(journal) => {
                add_journal(&mut self.increments, partition, journal, true)
            }
            DecodedEntry::Skipped => return Ok(()),
            DecodedEntry::Invalid(reason) => Err(reason.clone()),
        };
        let Increments { rules, batch, .. } = &mut self.increments;
        match added {
            Ok(()) => batch.applied += 1,
            Err(reason) if rules.holds_dead_letters => {
                return Err(HeldEntry { offset, reason });
            }
            Err(reason) => {
                let kind = entry.kind;
                let max_len = rules.config.dead.payload_bytes;
                let (payload, full_len) = preserve_payload(entry, decoded, max_len);
                batch.dead_letters.push(DeadLetter {
                    reason,
                    kind,
                    payload,
                    full_len,
                    partition,
                    offset,
                });
                self.record_outcome((partition, offset), Outcome::Dead);
            }
        }
        Ok(())
    }

    /// Adds the events of a group, all or none: if one of them cannot be counted, each becomes a dead letter of its own.
    fn add_group(&mut self, at: (Partition, u64), events: &[Event]) -> Result<(), HeldEntry> {
        let (partition, offset) = at;
        let is_fact = |event: &Event| matches!(event.delta, 1 | -1);
        // They change the same entity, so if the first can be added, all can.
        let added = events
            .iter()
            .try_for_each(|event| self.visit_event(partition, event, is_fact(event), Visit::Check))
            .and_then(|()| {
                events
                    .iter()
                    .try_for_each(|event| self.add_event(partition, event, is_fact(event)))
            });
        if let Some(event) = events.first() {
            self.announce(partition, event, added.is_ok());
        }
        let Increments { rules, batch, .. } = &mut self.increments;
        match added {
            Ok(()) => {
                for event in events {
                    batch.sample(&event.entity);
                    batch.applied += 1;
                }
            }
            Err(reason) if rules.holds_dead_letters => return Err(HeldEntry { offset, reason }),
            Err(reason) => {
                for event in events {
                    let payload = event.to_json().into_bytes();
                    batch.dead_letters.push(DeadLetter {
                        reason: reason.clone(),
                        kind: EntryKind::Event,
                        full_len: payload.len(),
                        payload,
                        partition,
                        offset,
                    });
                }
                self.record_outcome(at, Outcome::Dead);
            }
        }
        Ok(())
    }

    /// Checks that the set of a partition that may hold the id of an envelope is usable.
    fn check_event_set(&self, partition: Partition, id: Option<&Id>) -> Result<(), String> {
        let rules = &self.increments.rules;
        match id.and_then(Id::number) {
            Some(_) if !rules.unusable_keys.is_empty() => {
                rules.check_key(&rules.locator.keys().event_ids(partition))
            }
            _ => Ok(()),
        }
    }

    /// Announces the entity of an event. An action that was counted at once has changed it, and its scores, even if its event becomes a
    /// dead letter.
    fn announce(&mut self, partition: Partition, event: &Event, is_added: bool) {
        let Increments { rules, batch, .. } = &mut self.increments;
        if rules.config.changes.enabled && (is_added || event.counted) {
            batch.changes.add(&base_of(&event.entity));
        }
        let keys = rules.locator.keys();
        let is_home = keys.can_combine(partition, keys.of_entity(&event.entity));
        if !is_added && event.counted && is_home && !rules.config.ranks.is_empty() {
            batch.ranks.add(rules, &event.entity);
        }
    }

    /// Whether the envelope with this id was counted, by an earlier commit or earlier in the batch.
    fn is_duplicate(&self, id: &Id) -> bool {
        let Increments { rules, batch, .. } = &self.increments;
        rules.duplicate_envelopes.contains(id) || batch.envelope_ids.contains_key(id)
    }

    /// Adds facts that were read again.
    fn add_facts(&mut self, partition: Partition, facts: &ReadFacts) -> Result<(), String> {
        let Increments { rules, batch, .. } = &mut self.increments;
        let ReadFacts {
            metric,
            entity,
            users,
        } = facts;
        let home = rules.locator.keys().of_entity(entity);
        if home != partition {
            return Err(format!("it belongs to partition {home}"));
        }
        let Some(rule) = TimelineRule::of(metric, rules) else {
            return Ok(());
        };
        for (uid, _) in users {
            rule.check(rules, entity, uid)?;
        }
        for (uid, exists) in users {
            let change = Change::new(*exists, 0);
            rule.add((rules.locator, &mut batch.timelines), entity, uid, change);
        }
        Ok(())
    }

    /// Adds an event. `is_fact` tells whether a fact changed with it.
    fn add_event(
        &mut self,
        partition: Partition,
        event: &Event,
        is_fact: bool,
    ) -> Result<(), String> {
        self.visit_event(partition, event, is_fact, Visit::Add)
    }

    /// Checks an event, and adds it.
    fn visit_event(
        &mut self,
        partition: Partition,
        event: &Event,
        is_fact: bool,
        visit: Visit,
    ) -> Result<(), String> {
        if !event.is_in_range() {
            return Err("delta is out of range".to_owned());
        }
        let increments = &mut self.increments;
        let keys = increments.rules.locator.keys();
        let home = keys.of_entity(&event.entity);
        if home != partition {
            return Err(format!("it belongs to partition {home}"));
        }
        let new_rule = || CountingRule::of(event, increments);
        let rule = self.counting_rules.get_or_insert_with(event, new_rule);
        let entity_field = match (&rule.field, rule.has_entity_counter && !event.counted) {
            (Ok(field), true) => Some(*field),
            (Err(reason), true) => return Err(reason.clone()),
            (_, false) => None,
        };
        // An event counts as a whole or not at all: every key is checked before the first increment.
        let credit = rule.credit.as_ref().filter(|credit| credit.concerns(event));
        if let Some(credit) = credit {
            credit.check(increments, &event.entity, home)?;
        }
        let timelines = rule.timelines.as_ref().filter(|_| is_fact);
        if let Some(timelines) = timelines {
            timelines.check(&increments.rules, &event.entity, &event.uid)?;
        }
        for (uid, _) in rule.fed_counters(event) {
            increments.check_user(uid, keys.of_user(uid))?;
        }
        let day = rule.days.as_ref().map(|rule| {
            let day = self.calendar.event_day(event.ts, self.now);
            (rule, day)
        });
        if let Some((rule, day)) = &day {
            rule.check(&increments.rules, event, *day, entity_field.is_some())?;
        }
        if matches!(visit, Visit::Check) {
            return Ok(());
        }
        if let Some(field) = entity_field {
            increments.add_to_entity(field, &event.entity, home, event.delta)?;
        }
        if let Some((rule, day)) = day {
            rule.add(increments, event, day, entity_field.is_some());
        }
        for (uid, counter) in rule.fed_counters(event) {
            let home = keys.of_user(uid);
            if keys.can_combine(partition, home) {
                increments.add_to_user(uid, home, counter.index(), event.delta);
            } else {
                // The commit cannot write to another slot.
                increments.batch.forward(home, uid, counter, event.delta);
            }
        }
        if let Some(credit) = credit {
            credit.add(increments, (event, home), entity_field.is_some());
        }
        if let Some(timelines) = timelines {
            let Increments { rules, batch, .. } = increments;
            let change = Change::new(event.delta > 0, event.ts);
            let target = (rules.locator, &mut batch.timelines);
            timelines.add(target, &event.entity, &event.uid, change);
        }
        increments.batch.observe_timestamp(event.ts);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
