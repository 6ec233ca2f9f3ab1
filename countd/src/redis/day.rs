//! The day in which a change of a counter counts, as keys and arguments of scripts.

use super::script::CounterBackend;
use crate::domain::day::{Calendar, civil};
use crate::domain::ids::{Entity, Name};
use crate::domain::keys::Keys;
use redis::Cmd;

/// The day in which a step counts a change of a counter: the last keys and arguments of a script (day.lua).
#[derive(Clone, Debug)]
pub struct CountedDay {
    /// The Hash of the day, and the totals.
    keys: [String; 2],
    /// The date, the row of the total, and the ID of the entity.
    args: [String; 3],
}

impl CountedDay {
    /// The day of an event with the timestamp `ts`, at the time `now`.
    pub fn new(
        (keys, backend): (Keys, CounterBackend),
        calendar: &Calendar,
        (metric, entity): (&Name, &Entity),
        (ts, now): (u64, u64),
    ) -> CountedDay {
        let day = calendar.event_day(ts, now);
        let hash = match day.is_archived {
            true => keys.history_of(metric, entity),
            false => keys.days_of(metric, entity),
        };
        let (totals, row) = totals_of((keys, backend), metric, entity);
        CountedDay {
            keys: [hash, totals],
            args: [
                civil(day.number).to_string(),
                row.map(|row| row.to_string()).unwrap_or_default(),
                entity.eid.to_string(),
            ],
        }
    }

    /// Its keys, which follow those of the script.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// Adds its arguments, which follow those of the script.
    pub fn add_arguments(&self, cmd: &mut Cmd) {
        cmd.arg(&self.args);
    }
}

/// The key of an entity's total, and its row if the key is a table.
pub fn totals_of(
    (keys, backend): (Keys, CounterBackend),
    metric: &Name,
    entity: &Entity,
) -> (String, Option<u64>) {
    let partition = keys.of_entity(entity);
    let has_tables = backend == CounterBackend::Module;
    match entity.eid.number().filter(|_| has_tables) {
        Some(row) => {
            let table = keys.totals_table(metric, &entity.etype, partition);
            (table, Some(row))
        }
        None => (keys.totals_hash(metric, &entity.etype, partition), None),
    }
}
