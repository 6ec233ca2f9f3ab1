//! The counts by day of a batch: a section of its commit (days.lua).

use super::section::CommitSection;
use crate::domain::config::Config;
use crate::domain::day::{EventDay, civil};
use crate::domain::event::Event;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::Keys;
use crate::redis::day::totals_of;
use crate::redis::script::CounterBackend;
use hashbrown::HashMap;
use redis::Cmd;
use std::collections::BTreeMap;

/// The metric and the type of some entities. It has the same number for the whole batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DaysFamily(u32);

/// The counts of an entity.
#[derive(Debug)]
struct EntityDays {
    /// The Hash of days that are not archived.
    hash: String,
    /// The sum of the increments of each day.
    days: Vec<(u64, i64)>,
    /// The Hash of archived days, and the increments of those.
    history: Option<(String, Vec<(u64, i64)>)>,
    /// The key of the total, and its row if the key is a table.
    totals: (String, Option<u64>),
    /// The sum of all increments.
    sum: i64,
}

/// An event in a stream.
#[derive(Debug)]
struct StreamedEvent {
    uid: Id,
    delta: i64,
    ts: u64,
}

/// The counts by day of a batch, and the streams of the events.
#[derive(Debug, Default)]
pub struct Days {
    families: Vec<(Name, Name)>,
    entities: HashMap<(DaysFamily, Id), EntityDays>,
    streams: HashMap<String, Vec<StreamedEvent>>,
    streamed: usize,
    max_len: u64,
}

/// The keys and values of the commit, in their order.
#[derive(Default)]
struct Updates<'a> {
    /// The date and the increment of each field; the ID and the increment of each field of totals.
    hashes: BTreeMap<&'a str, Vec<(FieldName<'a>, i64)>>,
    /// The row and the increment of each total.
    tables: BTreeMap<&'a str, Vec<(u64, i64)>>,
}

enum FieldName<'a> {
    Day(u64),
    Entity(&'a Id),
}

impl Days {
    /// The family of a metric and a type.
    pub fn family(&mut self, metric: &Name, etype: &Name) -> DaysFamily {
        let known = self.families.iter();
        let mut known = known.map(|(metric, etype)| (metric, etype));
        let at = known.position(|family| family == (metric, etype));
        let at = at.unwrap_or_else(|| {
            self.families.push((metric.clone(), etype.clone()));
            self.families.len() - 1
        });
        DaysFamily(at as u32)
    }

    /// The keys that counting an entity in a day uses.
    pub fn keys_of(
        layout: (Keys, CounterBackend),
        (metric, entity): (&Name, &Entity),
        day: EventDay,
    ) -> [String; 2] {
        let hash = match day.is_archived {
            true => layout.0.history_of(metric, entity),
            false => layout.0.days_of(metric, entity),
        };
        [hash, totals_of(layout, metric, entity).0]
    }

    /// Adds to the count of an entity in a day.
    pub fn add(
        &mut self,
        layout: (Keys, CounterBackend),
        (family, entity): (DaysFamily, &Entity),
        day: EventDay,
        delta: i64,
    ) {
        let (metric, _) = &self.families[family.0 as usize];
        let key = (family, entity.eid.clone());
        let counts = self.entities.entry(key).or_insert_with(|| EntityDays {
            hash: layout.0.days_of(metric, entity),
            days: Vec::new(),
            history: None,
            totals: totals_of(layout, metric, entity),
            sum: 0,
        });
        let days = match day.is_archived {
            false => &mut counts.days,
            true => {
                let history = || (layout.0.history_of(metric, entity), Vec::new());
                &mut counts.history.get_or_insert_with(history).1
            }
        };
        match days.iter_mut().find(|(number, _)| *number == day.number) {
            Some((_, sum)) => *sum = sum.saturating_add(delta),
            None => days.push((day.number, delta)),
        }
        counts.sum = counts.sum.saturating_add(delta);
    }

    /// Appends an event to the stream of its day, which keeps about `max_len` events.
    pub fn stream(&mut self, stream: String, event: &Event, max_len: u64) {
        self.max_len = max_len;
        self.streamed += 1;
        self.streams.entry(stream).or_default().push(StreamedEvent {
            uid: event.uid.clone(),
            delta: event.delta,
            ts: event.ts,
        });
    }

    /// The number of entities.
    pub fn len(&self) -> usize {
        self.entities.len()
    }

    /// The number of events that are appended to streams.
    pub fn streamed(&self) -> usize {
        self.streamed
    }

    fn updates(&self) -> Updates<'_> {
        let mut updates = Updates::default();
        for ((_, eid), counts) in &self.entities {
            let history = counts.history.iter();
            let history = history.map(|(key, days)| (key, days));
            for (key, days) in [(&counts.hash, &counts.days)].into_iter().chain(history) {
                let changed = days.iter().filter(|(_, delta)| *delta != 0);
                let fields = changed.map(|(day, delta)| (FieldName::Day(*day), *delta));
                let fields: Vec<_> = fields.collect();
                if !fields.is_empty() {
                    updates.hashes.insert(key, fields);
                }
            }
            if counts.sum == 0 {
                continue;
            }
            let (totals, row) = &counts.totals;
            match row {
                Some(row) => {
                    let rows = updates.tables.entry(totals).or_default();
                    rows.push((*row, counts.sum));
                }
                None => {
                    let fields = updates.hashes.entry(totals).or_default();
                    fields.push((FieldName::Entity(eid), counts.sum));
                }
            }
        }
        updates
    }
}

impl CommitSection for Days {
    fn keys(&self) -> Vec<String> {
        let updates = self.updates();
        let counts = updates.hashes.keys().chain(updates.tables.keys());
        let streams = self.streams.keys().map(String::as_str);
        let counts = counts.copied().chain(streams);
        counts.map(str::to_owned).collect()
    }

    fn add_arguments(&self, _: &Config, _: Keys, call: &mut Cmd) -> usize {
        let updates = self.updates();
        let mut count = 4 + updates.hashes.len() + updates.tables.len() + self.streams.len();
        call.arg(updates.hashes.len());
        for fields in updates.hashes.values() {
            call.arg(2 * fields.len());
            count += 2 * fields.len();
            for (field, delta) in fields {
                match field {
                    FieldName::Day(day) => call.arg(civil(*day)),
                    FieldName::Entity(eid) => call.arg(eid.as_str()),
                };
                call.arg(*delta);
            }
        }
        call.arg(updates.tables.len());
        for rows in updates.tables.values() {
            call.arg(3 * rows.len());
            count += 3 * rows.len();
            for (row, delta) in rows {
                call.arg(*row).arg(0).arg(*delta);
            }
        }
        call.arg(self.max_len).arg(self.streams.len());
        for events in self.streams.values() {
            call.arg(3 * events.len());
            count += 3 * events.len();
            for event in events {
                call.arg(event.uid.as_str()).arg(event.delta).arg(event.ts);
            }
        }
        count
    }
}
