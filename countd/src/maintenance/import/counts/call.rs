//! The script calls that apply counts.

use super::super::error::ImportError;
use super::context::{ALL, CountImport, Located, Tracking};
use crate::domain::error::StoreError;
use crate::domain::event::{Cause, Journal, now_ms};
use crate::domain::ids::{Entity, Name};
use crate::domain::keys::{Keys, Partition};
use crate::redis::call::RedisCall;
use crate::redis::day::totals_of;
use crate::redis::script::{DAY_COUNTS, ScriptTemplate};
use crate::storage::moves::Moves;
use std::collections::{BTreeMap, HashMap};
use std::sync::PoisonError;

pub(super) static APPLY: ScriptTemplate =
    ScriptTemplate::writing(&[DAY_COUNTS, include_str!("../../../lua/import_counts.lua")])
        .with_many_counters();

/// The maximum number of records of a script call, which blocks the server.
const RECORDS_PER_CALL: usize = 500;
/// The sequence numbers of a chunk. It has fewer calls per partition.
const CALLS_PER_CHUNK: u64 = 1_000;
/// A script call and its records.
pub(super) struct ApplyCall<'a> {
    pub call: RedisCall,
    pub partition: Partition,
    pub moves: Moves,
    records: Vec<&'a Located<'a>>,
}

impl CountImport {
    pub(super) fn calls<'a>(&self, located: &'a [Located<'a>], number: u64) -> Vec<ApplyCall<'a>> {
        let keys = self.store.keys();
        let mut groups: BTreeMap<(Partition, &str), Vec<&Located<'a>>> = BTreeMap::new();
        for record in located {
            let scope = match self.tracking {
                Tracking::Counters => record.values[0].1.as_str(),
                Tracking::Chunks | Tracking::Entities => ALL,
            };
            let partition = keys.of_entity(record.entity);
            groups.entry((partition, scope)).or_default().push(record);
        }
        let mut calls = Vec::with_capacity(groups.len());
        for ((partition, scope), records) in groups {
            for (part, records) in (1..).zip(records.chunks(RECORDS_PER_CALL)) {
                let sequence = number * CALLS_PER_CHUNK + part;
                calls.push(self.call((partition, scope), sequence, records));
            }
        }
        calls
    }

    fn call<'a>(
        &self,
        (partition, scope): (Partition, &str),
        sequence: u64,
        records: &[&'a Located<'a>],
    ) -> ApplyCall<'a> {
        let layout = self.store.keys();
        let is_live = self.tracking != Tracking::Chunks;
        let mut keys = vec![layout.import_state(&self.name, partition)];
        if is_live {
            keys.push(layout.import_ids(&self.name, scope, partition));
            keys.push(layout.import_names(&self.name, scope, partition));
        }
        let first = keys.len();
        let mut moves = Moves::default();
        let places: Vec<(&str, Option<u64>)> = records
            .iter()
            .map(|record| self.place(record, partition, &mut moves))
            .collect();
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        for (key, _) in &places {
            let next = numbers.len() + 1;
            numbers.entry(key).or_insert_with(|| {
                keys.push((*key).to_owned());
                next
            });
        }
        debug_assert_eq!(keys.len(), first + numbers.len());
        // Lua counts from 1.
        let mut days: HashMap<String, usize> = HashMap::new();
        let mut day_of = |metric: &Name, entity: &Entity| {
            let (_, settings) = self.catalog.config.metrics.get(metric.as_str())?;
            let history = settings.daily.then(|| layout.history_of(metric, entity))?;
            Some(*days.entry(history).or_insert_with_key(|history| {
                let totals = totals_of((layout, self.store.backend()), metric, entity);
                keys.extend([history.clone(), totals.0]);
                keys.len() - 1
            }))
        };
        let days: Vec<Vec<Option<usize>>> = records
            .iter()
            .map(|record| {
                let values = record.values.iter();
                values
                    .map(|(_, metric, _)| day_of(metric, record.entity))
                    .collect()
            })
            .collect();
        let journals = self.store.layout().journals();
        if journals {
            keys.push(layout.log(partition));
        }
        // Lua counts from 1.
        let log_place = journals.then_some(keys.len());
        let script = match moves.is_empty() {
            true => APPLY.on(self.store.backend()),
            false => {
                keys.push(layout.storage_phases(partition));
                keys.extend(moves.keys().cloned());
                APPLY.moving()
            }
        };
        let mut call = RedisCall::script(script, &keys);
        let cmd = &mut call.cmd;
        cmd.arg(partition);
        match is_live {
            true => cmd.arg(""),
            false => cmd.arg(sequence),
        };
        let ts = now_ms();
        let today = self.catalog.config.days.calendar().day_of(ts);
        cmd.arg(self.mode.name()).arg(Keys::counted_before(today));
        cmd.arg(records.len());
        cmd.arg(log_place.map(|place| place.to_string()).unwrap_or_default());
        for ((record, (key, row)), days) in records.iter().zip(&places).zip(days) {
            let eid = &record.entity.eid;
            cmd.arg(eid.as_str())
                .arg(u8::from(eid.number().is_some()))
                .arg(numbers[key]);
            match row {
                Some(row) => cmd.arg(*row),
                None => cmd.arg(""),
            };
            cmd.arg(record.len).arg(record.min_len);
            if journals {
                let names: Vec<&str> = record.values.iter().map(|(_, n, _)| n.as_str()).collect();
                cmd.arg(Journal::of_changes(record.entity, Cause::Import, ts));
                cmd.arg(names.join(" "));
            } else {
                cmd.arg("").arg("");
            }
            cmd.arg(record.values.len());
            for ((idx, _, value), day) in record.values.iter().zip(days) {
                cmd.arg(*idx).arg(*value);
                cmd.arg(day.map(|day| day.to_string()).unwrap_or_default());
            }
        }
        if !moves.is_empty() {
            moves.add_arguments(cmd);
        }
        ApplyCall {
            call,
            partition,
            moves,
            records: records.to_vec(),
        }
    }

    /// The key and the row of a record's counters. Adds them to `moves` if a migration moves them.
    fn place<'a>(
        &self,
        record: &'a Located<'_>,
        partition: Partition,
        moves: &mut Moves,
    ) -> (&'a str, Option<u64>) {
        let Some(moving) = record.at.moving() else {
            return (record.at.key(), record.at.row());
        };
        let all = self.in_rows.lock().unwrap_or_else(PoisonError::into_inner);
        let in_rows = all
            .get(&partition)
            .is_some_and(|types| types.contains(&moving.field));
        moves.choose(&moving.field, in_rows);
        match in_rows {
            true => {
                let table = || moving.table.clone();
                moves.add(&moving.object, table, moving.id, record.min_len);
                (&moving.table, Some(moving.id))
            }
            false => (&moving.object, None),
        }
    }
}

impl ApplyCall<'_> {
    /// The number of records that were applied.
    pub fn decode(&self, reply: &[u64]) -> Result<u64, ImportError> {
        let at = |index: usize| reply.get(index).copied().unwrap_or(0) as usize;
        if let [1, applied] = reply {
            return Ok(*applied);
        }
        if reply == [0] {
            return Ok(0);
        }
        if let (Some(object), cause @ (6 | 7)) = (self.moves.objects().nth(at(1)), at(0)) {
            let of_object = |record: &&&Located<'_>| record.at.key() == object;
            return Err(match self.records.iter().find(of_object) {
                Some(record) => ImportError::Invalid {
                    origin: record.origin.clone(),
                    problem: match cause {
                        6 => format!("{object} holds another type"),
                        _ => format!("{object} has fewer counters than its original schema"),
                    },
                },
                None => StoreError::Unexpected(format!("import: {reply:?}")).into(),
            });
        }
        let record = self.records.get(at(1));
        let (Some(record), 2..=4) = (record, at(0)) else {
            let problem = format!("import: {reply:?}");
            return Err(StoreError::Unexpected(problem).into());
        };
        let key = record.at.key();
        let problem = match at(0) {
            2 => format!("{key} holds another type"),
            3 => format!("{key} has fewer counters than its original schema"),
            _ => {
                let mut values = record.values.iter();
                let name = values.find(|(idx, ..)| *idx == at(2));
                let name = name.map_or("a counter", |(_, name, _)| name.as_str());
                let Entity { etype, eid } = record.entity;
                format!("{name} of {etype} {eid} would exceed the maximum of a counter")
            }
        };
        Err(ImportError::Invalid {
            origin: record.origin.clone(),
            problem,
        })
    }
}
