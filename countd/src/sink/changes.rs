//! What may have changed: the facts and the entities that entries of the log name.

use super::tables::Tables;
use crate::consumer::{DecodedEntry, decode};
use crate::domain::event::Event;
use crate::domain::ids::{Entity, Id, Name};
use crate::log::LogEntry;
use std::collections::{BTreeMap, BTreeSet};

/// A fact: the number of its table, the entity and the user.
pub type FactKey = (usize, Entity, Id);

/// Facts and entities to compare with their rows.
#[derive(Default)]
pub struct Changes {
    /// The facts, with the time of the latest event that has added them.
    pub facts: BTreeMap<FactKey, Option<u64>>,
    /// The entities whose counters are compared.
    pub entities: BTreeSet<Entity>,
    /// The metrics of events, by type. The cached schema of the type may lack them.
    pub metrics: BTreeSet<(Name, Name)>,
    /// Statements that delete rows which can be of no fact and no counter.
    pub deletions: Vec<String>,
}

impl Changes {
    /// Whether there is nothing to compare.
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty() && self.entities.is_empty() && self.deletions.is_empty()
    }

    /// Adds what an entry names. Entries that cannot be counted have changed nothing.
    pub fn add_entry(&mut self, tables: &Tables, entry: &LogEntry) {
        self.add_decoded(tables, decode(entry));
    }

    /// [`add_entry`](Self::add_entry) of a decoded entry.
    pub fn add_decoded(&mut self, tables: &Tables, decoded: DecodedEntry) {
        match decoded {
            DecodedEntry::Event(event, _) => self.add_event(tables, event),
            DecodedEntry::Group(events) => {
                events
                    .into_iter()
                    .for_each(|event| self.add_event(tables, event));
            }
            DecodedEntry::Reread(reread) => {
                let entity = Entity {
                    etype: reread.etype,
                    eid: reread.eid,
                };
                for uid in reread.uids {
                    self.add_fact(tables, (&entity, &reread.metric, uid), None);
                }
            }
            DecodedEntry::Check(check) => {
                let entity = check.entity();
                for (metric, uid, _) in check.facts {
                    self.add_fact(tables, (&entity, &metric, uid), None);
                }
                self.add_entity(tables, entity);
            }
            DecodedEntry::Journal(journal) => {
                let metrics = journal.changes.iter();
                let metrics = metrics.map(|(metric, _)| (journal.etype.clone(), metric.clone()));
                self.metrics.extend(metrics);
                self.add_entity(tables, journal.entity());
            }
            DecodedEntry::Author(author) => self.add_entity(tables, author.entity),
            DecodedEntry::Derived(_)
            | DecodedEntry::Facts(_)
            | DecodedEntry::JournalToApply(_)
            | DecodedEntry::Skipped
            | DecodedEntry::Invalid(_) => {}
        }
    }

    fn add_event(&mut self, tables: &Tables, event: Event) {
        let time = (event.delta > 0 && event.ts > 0).then_some(event.ts);
        let entity = event.entity;
        self.add_fact(tables, (&entity, &event.metric, event.uid), time);
        self.metrics.insert((entity.etype.clone(), event.metric));
        self.add_entity(tables, entity);
    }

    fn add_entity(&mut self, tables: &Tables, entity: Entity) {
        if tables.counts_of(&entity.etype).is_some() {
            self.entities.insert(entity);
        }
    }

    fn add_fact(
        &mut self,
        tables: &Tables,
        (entity, metric, uid): (&Entity, &Name, Id),
        time: Option<u64>,
    ) {
        if let Some(table) = tables.details_of(&entity.etype, metric) {
            let known = self.facts.entry((table, entity.clone(), uid)).or_default();
            *known = time.or(*known);
        }
    }
}
