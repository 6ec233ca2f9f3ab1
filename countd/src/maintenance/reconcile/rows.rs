//! The entities of a partition whose counters are rows of a table, by `CTAB.SCAN`.

use super::context::Context;
use crate::domain::error::StoreError;
use crate::domain::event::now_ms;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::Partition;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &[
    "CTAB.SCAN {tables} 0 COUNT 1",
    "CTAB.CARD {tables}",
    "HGET {reconcile} f",
    "HSET {reconcile} f v",
];

/// The beginning of the field of a saved sweep.
const FIELD: &str = "rows:";

/// A saved sweep through the rows of a table: `{cursor}/{started}/{number}/{rows}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedRowSweep {
    cursor: String,
    /// Since when it runs, in milliseconds since 1970.
    pub started: Option<u64>,
    /// How many sweeps have ended before it.
    pub number: u64,
    /// The number of rows of the table when it was saved.
    pub rows: Option<u64>,
}

impl SavedRowSweep {
    /// `None` if there is no sweep.
    fn parse(saved: &str) -> Option<SavedRowSweep> {
        let mut parts = saved.split('/');
        let cursor = parts
            .next()
            .filter(|cursor| cursor.parse::<u64>().is_ok())?;
        let mut number = || parts.next().map(str::parse::<u64>);
        Some(SavedRowSweep {
            cursor: cursor.to_owned(),
            started: number()?.ok(),
            number: number().and_then(Result::ok).unwrap_or(0),
            rows: number().and_then(Result::ok),
        })
    }

    /// The entity type of a field `rows:{schema}:{etype}:{partition}`, and its sweep. `None` for other fields.
    pub(in crate::maintenance) fn of_field(
        field: &str,
        saved: &str,
    ) -> Option<(Name, SavedRowSweep)> {
        let etype = field.strip_prefix(FIELD)?.split(':').nth(1)?;
        Some((Name::new(etype).ok()?, SavedRowSweep::parse(saved)?))
    }
}

/// A sweep through the rows of a table. It continues where an earlier one has saved its cursor.
pub struct RowSweep {
    context: Context,
    etype: Name,
    table: String,
    /// The field of the saved sweep.
    field: String,
    cursor: String,
    started: u64,
    /// How many sweeps have ended.
    number: u64,
    /// The number of rows of the table.
    rows: u64,
}

impl RowSweep {
    /// The sweep of a table from its first row on.
    pub fn new(context: &Context, (schema, etype): (&Name, &Name), partition: Partition) -> Self {
        RowSweep {
            context: context.clone(),
            etype: etype.clone(),
            table: context.store.keys().table(schema, etype, partition),
            field: format!("{FIELD}{schema}:{etype}:{partition}"),
            cursor: "0".to_owned(),
            started: now_ms(),
            number: 0,
            rows: 0,
        }
    }

    /// Continues the saved sweep, if there is one. The table has this number of rows now. Returns whether it had more than twice as many
    /// when the sweep was saved: then it was lost, and events or actions have created it again.
    ///
    /// # Errors
    /// The store is unavailable.
    pub async fn resume(&mut self, rows: u64) -> Result<bool, StoreError> {
        let mut cmd = redis::cmd("HGET");
        cmd.arg(self.context.store.keys().reconciliation());
        cmd.arg(&self.field);
        let saved: Option<String> = cmd.query_async(&mut self.context.store.reads()).await?;
        self.rows = rows;
        let Some(saved) = SavedRowSweep::parse(&saved.unwrap_or_default()) else {
            return Ok(false);
        };
        self.cursor = saved.cursor;
        self.started = saved.started.unwrap_or_else(now_ms);
        self.number = saved.number;
        Ok(saved
            .rows
            .is_some_and(|before| before > rows.saturating_mul(2)))
    }

    /// The number of the sweep: how many have ended before it.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The number of rows. None if the key holds another type.
    ///
    /// # Errors
    /// The store is unavailable.
    pub async fn row_count(&self) -> Result<u64, StoreError> {
        let mut cmd = redis::cmd("CTAB.CARD");
        cmd.arg(&self.table);
        let count: Result<u64, _> = cmd.query_async(&mut self.context.store.reads()).await;
        match count.map_err(StoreError::from) {
            Err(StoreError::WrongType(_)) => Ok(0),
            count => count,
        }
    }

    /// The next entities, about `limit`. Returns them and whether the sweep has reached the end.
    ///
    /// # Errors
    /// The store is unavailable.
    pub async fn next(&mut self, limit: usize) -> Result<(Vec<Entity>, bool), StoreError> {
        let mut cmd = redis::cmd("CTAB.SCAN");
        cmd.arg(&self.table).arg(&self.cursor);
        cmd.arg("COUNT").arg(limit);
        let page = cmd.query_async(&mut self.context.store.reads()).await;
        let (next, ids): (String, Vec<String>) = match page.map_err(StoreError::from) {
            Err(StoreError::WrongType(_)) => ("0".to_owned(), Vec::new()),
            page => page?,
        };
        let ids = ids.into_iter().filter_map(|id| Id::new(id).ok());
        let entities = ids.map(|eid| Entity {
            etype: self.etype.clone(),
            eid,
        });
        let is_last = next == "0";
        self.number += u64::from(is_last);
        self.cursor = next;
        Ok((entities.collect(), is_last))
    }

    /// Saves the cursor. A sweep that has reached the end begins again. Returns since when it runs, in milliseconds since 1970.
    ///
    /// # Errors
    /// The store is unavailable.
    pub async fn save(&mut self) -> Result<u64, StoreError> {
        if self.cursor == "0" {
            self.started = now_ms();
        }
        let mut cmd = redis::cmd("HSET");
        cmd.arg(self.context.store.keys().reconciliation());
        cmd.arg(&self.field);
        let state = [self.started, self.number, self.rows].map(|number| number.to_string());
        cmd.arg(format!("{}/{}", self.cursor, state.join("/")));
        cmd.exec_async(&mut self.context.store.commands()).await?;
        Ok(self.started)
    }
}
