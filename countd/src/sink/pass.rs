//! A pass over all data: all facts and counters of Redis, and then all rows. Each page is written like entries of the log.
//!
//! A fact or counter that exists throughout is found by the scan, and a row that is of none is found among the rows. What changes meanwhile has
//! entries in the log, after the offsets at which the pass began.

use super::changes::Changes;
use super::error::SinkError;
use super::scan::Scan;
use super::statements::After;
use super::tables::{IdColumn, Tables, quoted_text};
use super::truth::Truth;
use crate::database::Session;
use crate::domain::ids::{Entity, Id};
use std::collections::VecDeque;

/// The number of rows that are read at once.
const PAGE: usize = 1_000;

/// A table whose rows are compared.
#[derive(Clone, Copy)]
enum RowsOf {
    Details(usize),
    Counts(usize),
}

/// A pass.
pub struct Pass {
    /// `None` when all data was read.
    scan: Option<Scan>,
    /// The tables that are left.
    tables: VecDeque<RowsOf>,
    after: After,
}

impl Pass {
    /// A pass from the beginning.
    ///
    /// # Errors
    /// The servers are not known.
    pub fn new(truth: &Truth, tables: &Tables) -> Result<Pass, SinkError> {
        let details = (0..tables.details.len()).map(RowsOf::Details);
        let counts = (0..tables.counts.len()).map(RowsOf::Counts);
        Ok(Pass {
            scan: Some(Scan::new(truth, tables)?),
            tables: details.chain(counts).collect(),
            after: None,
        })
    }

    /// What is compared next; `None` at the end.
    ///
    /// # Errors
    /// Redis or the database is unavailable.
    pub async fn next(
        &mut self,
        truth: &Truth,
        tables: &Tables,
        session: &mut Session,
    ) -> Result<Option<Changes>, SinkError> {
        if let Some(scan) = &mut self.scan {
            match scan.next(truth, tables).await? {
                Some(found) => return Ok(Some(found)),
                None => self.scan = None,
            }
        }
        let Some(rows_of) = self.tables.front() else {
            return Ok(None);
        };
        let mut found = Changes::default();
        let rows = match *rows_of {
            RowsOf::Details(table) => {
                let details = &tables.details[table];
                let rows = tables.facts_after(details, &self.after, PAGE);
                let rows = session.texts(rows).await?;
                for (user, entity) in rows.iter().filter_map(|row| pair(row)) {
                    match (
                        of_column(details.user, user),
                        of_column(details.entity, entity),
                    ) {
                        (Some(uid), Some(eid)) => {
                            let etype = details.of.etype.clone();
                            let entity = Entity { etype, eid };
                            found.facts.insert((table, entity, uid), None);
                        }
                        _ => {
                            let user = details.user.stored_literal(tables.kind, user);
                            let entity = details.entity.stored_literal(tables.kind, entity);
                            let deletion = tables.delete_fact(details, &user, &entity);
                            found.deletions.push(deletion);
                        }
                    }
                }
                self.after = rows.last().and_then(|row| pair(row)).map(|(user, entity)| {
                    (
                        details.user.stored_literal(tables.kind, user),
                        details.entity.stored_literal(tables.kind, entity),
                    )
                });
                rows.len()
            }
            RowsOf::Counts(table) => {
                let counts = &tables.counts[table];
                let rows = tables.counts_after(counts, &self.after, PAGE);
                let rows = session.texts(rows).await?;
                for (entity, _) in rows.iter().filter_map(|row| pair(row)) {
                    match of_column(counts.entity, entity) {
                        Some(eid) => {
                            let etype = counts.of.etype.clone();
                            found.entities.insert(Entity { etype, eid });
                        }
                        None => {
                            let entity = counts.entity.stored_literal(tables.kind, entity);
                            let deletion = tables.delete_counts(counts, &entity, &[]);
                            found.deletions.push(deletion);
                        }
                    }
                }
                self.after = rows.last().and_then(|row| pair(row)).map(|(entity, name)| {
                    let entity = counts.entity.stored_literal(tables.kind, entity);
                    (entity, quoted_text(tables.kind, name))
                });
                rows.len()
            }
        };
        if rows < PAGE {
            self.tables.pop_front();
            self.after = None;
        }
        Ok(Some(found))
    }
}

/// The values of a row with two columns.
fn pair(row: &[Option<String>]) -> Option<(&str, &str)> {
    match row {
        [Some(first), Some(second)] => Some((first, second)),
        _ => None,
    }
}

/// The id that a column holds. `None` if the value is no id that the sink would have written.
fn of_column(column: IdColumn, value: &str) -> Option<Id> {
    let id = Id::new(value).ok()?;
    column.literal(&id).map(|_| id)
}
