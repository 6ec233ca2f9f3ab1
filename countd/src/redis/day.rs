//! The day in which a change of a counter counts, as keys and arguments of scripts.

use super::script::CounterBackend;
use crate::domain::day::{Calendar, civil};
use crate::domain::error::StoreError;
use crate::domain::ids::{Entity, Name};
use crate::domain::keys::Keys;
use redis::{Cmd, FromRedisValue, Value};

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

/// The keys of all numbers of an entity's counts by day, for the scripts that compare them (day_numbers.lua).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayNumbers {
    keys: [String; 3],
    row: Option<u64>,
}

impl DayNumbers {
    /// The numbers of a metric of an entity.
    pub fn new(layout: (Keys, CounterBackend), metric: &Name, entity: &Entity) -> DayNumbers {
        let (totals, row) = totals_of(layout, metric, entity);
        let days = layout.0.days_of(metric, entity);
        let history = layout.0.history_of(metric, entity);
        DayNumbers {
            keys: [days, history, totals],
            row,
        }
    }

    /// The Hash of days, that of archived days, and the totals. All are in the slot of the entity.
    pub fn keys(&self) -> &[String; 3] {
        &self.keys
    }

    /// The row of the total as an argument: empty if the total is in a Hash.
    pub fn row_argument(&self) -> String {
        self.row.map(|row| row.to_string()).unwrap_or_default()
    }

    /// The command that reads the total of the entity.
    pub fn total_command(&self, entity: &Entity) -> Cmd {
        let [.., totals] = &self.keys;
        let mut cmd = Cmd::new();
        match self.row {
            Some(row) => cmd.arg("CTAB.MGET").arg(totals).arg(row),
            None => cmd.arg("HGET").arg(totals).arg(entity.eid.as_str()),
        };
        cmd
    }

    /// The total in the reply of [`total_command`](DayNumbers::total_command).
    ///
    /// # Errors
    /// The reply has another form.
    pub fn decode_total(&self, reply: Value) -> Result<u64, StoreError> {
        let total = match self.row {
            Some(_) => Vec::<Option<Vec<u64>>>::from_redis_value(reply).map(|rows| {
                let row = rows.into_iter().next().flatten();
                row.and_then(|row| row.first().copied())
            }),
            None => Option::<String>::from_redis_value(reply)
                .map(|total| total.and_then(|total| total.parse().ok())),
        };
        let total = total.map_err(|error| StoreError::Unexpected(format!("a total: {error}")))?;
        Ok(total.unwrap_or(0))
    }
}

/// The key of an entity's total, and its row if the key is a table.
pub fn totals_of(
    (keys, backend): (Keys, CounterBackend),
    metric: &Name,
    entity: &Entity,
) -> (String, Option<u64>) {
    let partition = keys.of_entity(entity);
    match entity.eid.number().filter(|_| backend.writes_tables()) {
        Some(row) => {
            let table = keys.totals_table(metric, &entity.etype, partition);
            (table, Some(row))
        }
        None => (keys.totals_hash(metric, &entity.etype, partition), None),
    }
}
