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
use std::sync::OnceLock;

/// The metric and the type of some entities. It has the same number for the whole batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DaysFamily(u32);

/// The count of an entity in a day.
#[derive(Debug)]
struct DayCount {
    /// The number of the day.
    day: u64,
    /// The sum of the increments.
    sum: i64,
    /// Whether the field of the day is written even if the sum is 0. Archiving finds the stream of a day by its field.
    is_kept: bool,
}

/// The counts of an entity.
#[derive(Debug)]
struct EntityDays {
    /// The Hash of days that are not archived.
    hash: String,
    /// The counts of days.
    days: Vec<DayCount>,
    /// The Hash of archived days, and the counts of those.
    history: Option<(String, Vec<DayCount>)>,
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
    /// The number of days of entities.
    day_count: usize,
    /// The updates of what was added so far.
    updates: OnceLock<Updates>,
}

/// The keys and values of the commit, in their order.
#[derive(Debug, Default)]
struct Updates {
    /// The date and the increment of each field; the ID and the increment of each field of totals.
    hashes: BTreeMap<String, Vec<(FieldName, i64)>>,
    /// The row and the increment of each total.
    tables: BTreeMap<String, Vec<(u64, i64)>>,
}

#[derive(Debug)]
enum FieldName {
    Day(u64),
    Entity(Id),
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
        self.count(layout, (family, entity), day, (delta, false));
    }

    /// Has the field of a day written, whatever the count of the day is.
    pub fn keep(
        &mut self,
        layout: (Keys, CounterBackend),
        of: (DaysFamily, &Entity),
        day: EventDay,
    ) {
        self.count(layout, of, day, (0, true));
    }

    fn count(
        &mut self,
        layout: (Keys, CounterBackend),
        (family, entity): (DaysFamily, &Entity),
        day: EventDay,
        (delta, is_kept): (i64, bool),
    ) {
        self.updates.take();
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
        match days.iter_mut().find(|count| count.day == day.number) {
            Some(count) => {
                count.sum = count.sum.saturating_add(delta);
                count.is_kept |= is_kept;
            }
            None => {
                self.day_count += 1;
                days.push(DayCount {
                    day: day.number,
                    sum: delta,
                    is_kept,
                });
            }
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

    /// The number of days of entities.
    pub fn len(&self) -> usize {
        self.day_count
    }

    /// The number of write commands that the commit runs for them.
    pub fn write_count(&self) -> usize {
        let updates = self.updates();
        let fields = updates.hashes.values().map(Vec::len).sum::<usize>();
        fields + updates.tables.len() + self.streamed
    }

    /// The number of events that are appended to streams.
    pub fn streamed(&self) -> usize {
        self.streamed
    }

    fn updates(&self) -> &Updates {
        self.updates.get_or_init(|| self.new_updates())
    }

    fn new_updates(&self) -> Updates {
        let mut updates = Updates::default();
        for ((_, eid), counts) in &self.entities {
            let history = counts.history.iter();
            let history = history.map(|(key, days)| (key, days));
            for (key, days) in [(&counts.hash, &counts.days)].into_iter().chain(history) {
                let written = days.iter().filter(|count| count.sum != 0 || count.is_kept);
                let fields = written.map(|count| (FieldName::Day(count.day), count.sum));
                let fields: Vec<_> = fields.collect();
                if !fields.is_empty() {
                    updates.hashes.insert(key.clone(), fields);
                }
            }
            if counts.sum == 0 {
                continue;
            }
            let (totals, row) = &counts.totals;
            match row {
                Some(row) => {
                    let rows = updates.tables.entry(totals.clone()).or_default();
                    rows.push((*row, counts.sum));
                }
                None => {
                    let fields = updates.hashes.entry(totals.clone()).or_default();
                    fields.push((FieldName::Entity(eid.clone()), counts.sum));
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
        counts.chain(self.streams.keys()).cloned().collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::keys::PartitionHash::Murmur2;

    #[test]
    fn a_streamed_day_of_sum_0_is_written() {
        let layout = (Keys::new(8, false, Murmur2), CounterBackend::Module);
        let name = |text| Name::new(text).expect("a name");
        let entity = Entity {
            etype: name("note"),
            eid: Id::new("7").expect("an ID"),
        };
        let mut days = Days::default();
        let family = days.family(&name("read"), &entity.etype);
        let day = |number| EventDay {
            number,
            is_archived: false,
        };
        days.add(layout, (family, &entity), day(1), 1);
        days.add(layout, (family, &entity), day(1), -1);
        assert_eq!(days.keys(), Vec::<String>::new());
        assert_eq!(days.write_count(), 0);
        days.keep(layout, (family, &entity), day(1));
        assert_eq!(days.keys(), ["h:agg:read:note:7"]);
        days.add(layout, (family, &entity), day(2), 5);
        assert_eq!(days.len(), 2, "each day costs");
        assert_eq!(days.keys(), ["h:agg:read:note:7", "tot:read:note:0"]);
        assert_eq!(days.write_count(), 3, "two fields and a total");
    }
}
