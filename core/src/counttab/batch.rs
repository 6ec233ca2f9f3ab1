//! Batches of increments: all or nothing.
//!
//! The increments are sorted by row and column. So each counter is read once, each row is written once, and all results
//! are computed before the first change.

use super::change::keeps_width;
use super::table::CountTab;
use crate::countint::{CountError, IncrResult, Overflow};

/// The maximum number of increments on the fast path for a single row.
const FAST_PATH: usize = 16;

/// An increment of one counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowIncrement {
    /// The row.
    pub id: u64,
    /// The counter.
    pub idx: usize,
    /// The number to add.
    pub delta: i64,
}

/// The result of [`CountTab::incr_all`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchResult {
    /// Whether a row was created, or the final value of a counter differs from its first.
    pub changed: bool,
    /// The number of increments that stopped at 0 or at 2^40-1.
    pub saturated: u64,
}

impl CountTab {
    /// Adds each delta to its counter, in order. Creates missing rows. All or nothing.
    ///
    /// `out` is cleared, then receives the value after each increment; after an error it is empty. O(k log n + k log k).
    ///
    /// # Errors
    /// [`CountError::IndexOutOfRange`] for any increment, else [`CountError::OutOfMemory`] for the working memory, else
    /// [`CountError::Overflow`] under [`Overflow::Fail`].
    pub fn incr_all(
        &mut self,
        ops: &[RowIncrement],
        o: Overflow,
        out: &mut Vec<u64>,
    ) -> Result<BatchResult, CountError> {
        out.clear();
        if ops.iter().any(|op| op.idx >= self.len()) {
            return Err(CountError::IndexOutOfRange);
        }
        // The common case: clients name the counters of one row in order, each once.
        let in_order = |a: &RowIncrement, b: &RowIncrement| a.id == b.id && a.idx < b.idx;
        if !ops.is_empty() && ops.len() <= FAST_PATH && ops.is_sorted_by(in_order) {
            return self.incr_row(ops, o, out);
        }
        let mut order = Vec::new();
        let mut finals = Vec::new();
        let room = out
            .try_reserve(ops.len())
            .and(order.try_reserve_exact(ops.len()));
        room.and(finals.try_reserve_exact(ops.len()))
            .map_err(|_| CountError::OutOfMemory)?;
        order.extend(0..ops.len());
        // The position is the last key, so increments of one counter keep their order.
        order.sort_unstable_by_key(|&i| (ops[i].id, ops[i].idx, i));
        out.resize(ops.len(), 0);
        match self.results(ops, &order, o, out, &mut finals) {
            Some(saturated) => Ok(BatchResult {
                changed: self.write_rows(&finals),
                saturated,
            }),
            None => {
                out.clear();
                Err(CountError::Overflow)
            }
        }
    }

    /// [`incr_all`](Self::incr_all) of a few distinct counters of one row.
    fn incr_row(
        &mut self,
        ops: &[RowIncrement],
        o: Overflow,
        out: &mut Vec<u64>,
    ) -> Result<BatchResult, CountError> {
        let Some((place, row)) = self.find(ops[0].id) else {
            return self.create_row(ops, o, out);
        };
        let page = self.pages.get(place).1;
        let mut cursor = page.cursor(row);
        let mut targets = [None; FAST_PATH];
        let (mut changed, mut in_place, mut saturated) = (false, true, 0);
        for (op, target) in ops.iter().zip(&mut targets) {
            let field = cursor.field(op.idx);
            let old = field.map_or(0, |field| page.load(field));
            let step = IncrResult::saturating(old, op.delta);
            if step.saturated && o == Overflow::Fail {
                out.clear();
                return Err(CountError::Overflow);
            }
            changed |= step.new != old;
            in_place &= field.is_some_and(|field| keeps_width(field, old, step.new));
            saturated += u64::from(step.saturated);
            *target = field;
            out.push(step.new);
        }
        if changed && in_place {
            let page = self.pages.get_mut(place);
            for (field, &value) in targets.iter().flatten().zip(&*out) {
                page.store(*field, value);
            }
        } else if changed {
            self.write(place, row, &fields_of(ops, out)[..ops.len()]);
        }
        Ok(BatchResult { changed, saturated })
    }

    fn create_row(
        &mut self,
        ops: &[RowIncrement],
        o: Overflow,
        out: &mut Vec<u64>,
    ) -> Result<BatchResult, CountError> {
        let mut saturated = 0;
        for op in ops {
            let step = IncrResult::saturating(0, op.delta);
            saturated += u64::from(step.saturated);
            out.push(step.new);
        }
        if saturated > 0 && o == Overflow::Fail {
            out.clear();
            return Err(CountError::Overflow);
        }
        self.insert(ops[0].id, &fields_of(ops, out)[..ops.len()]);
        Ok(BatchResult {
            changed: true,
            saturated,
        })
    }

    /// Computes the value after each increment, and the final value of each counter. Returns the number of increments that
    /// saturated. None when one did under [`Overflow::Fail`].
    fn results(
        &self,
        ops: &[RowIncrement],
        order: &[usize],
        o: Overflow,
        out: &mut [u64],
        finals: &mut Vec<(u64, (usize, u64))>,
    ) -> Option<u64> {
        let mut saturated = 0;
        for of_row in order.chunk_by(|&a, &b| ops[a].id == ops[b].id) {
            let id = ops[of_row[0]].id;
            let row = self.row(id);
            for of_counter in of_row.chunk_by(|&a, &b| ops[a].idx == ops[b].idx) {
                let idx = ops[of_counter[0]].idx;
                let mut value = row.map_or(0, |(page, row)| page.get(row, idx));
                for &i in of_counter {
                    let step = IncrResult::saturating(value, ops[i].delta);
                    if step.saturated && o == Overflow::Fail {
                        return None;
                    }
                    saturated += u64::from(step.saturated);
                    value = step.new;
                    out[i] = value;
                }
                finals.push((id, (idx, value)));
            }
        }
        Some(saturated)
    }

    /// Writes the final values. Returns whether anything changed.
    fn write_rows(&mut self, finals: &[(u64, (usize, u64))]) -> bool {
        let mut changed = false;
        let mut fields = Vec::new();
        for row in finals.chunk_by(|a, b| a.0 == b.0) {
            fields.clear();
            fields.extend(row.iter().map(|&(_, field)| field));
            changed |= self.put_row(row[0].0, &fields);
        }
        changed
    }
}

/// The counters of `ops` with their new values, in the first elements of an array.
fn fields_of(ops: &[RowIncrement], values: &[u64]) -> [(usize, u64); FAST_PATH] {
    let mut fields = [(0, 0); FAST_PATH];
    for ((field, op), &value) in fields.iter_mut().zip(ops).zip(values) {
        *field = (op.idx, value);
    }
    fields
}
