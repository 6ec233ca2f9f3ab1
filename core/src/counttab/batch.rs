//! Many increments in one step: all of them or none.
//!
//! The steps are put in the order of the rows and columns that they touch. So each counter is read once and each row
//! written once, whatever is repeated, and what a batch comes to is known before anything has changed.

use super::CountTab;
use super::change::keeps_width;
use crate::countint::{CountError, Overflow, Step};

/// A row with no more increments than this may take a short way.
const FEW: usize = 16;

/// An increment of one counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op {
    /// The row.
    pub id: u64,
    /// The counter.
    pub idx: usize,
    /// What is added.
    pub delta: i64,
}

/// What a batch did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changes {
    /// Whether a row is new, or a counter ends with another value than it began with.
    pub changed: bool,
    /// How many steps were cut off at 0 or at 2^40-1.
    pub saturated: u64,
}

impl CountTab {
    /// Adds each delta to its counter, those of one counter in turn; missing rows are created. All of it or nothing.
    ///
    /// `out` is cleared, then gets the value after each step; after an error it is empty. O(k log n + k log k).
    ///
    /// # Errors
    /// [`CountError::IndexOutOfRange`] for any step, else [`CountError::OutOfMemory`] where there is none for the
    /// work, else [`CountError::Overflow`] under [`Overflow::Fail`].
    pub fn incr_all(
        &mut self,
        ops: &[Op],
        o: Overflow,
        out: &mut Vec<u64>,
    ) -> Result<Changes, CountError> {
        out.clear();
        if ops.iter().any(|op| op.idx >= self.len()) {
            return Err(CountError::IndexOutOfRange);
        }
        // Clients name the counters of a row in order, each once.
        let in_order = |a: &Op, b: &Op| a.id == b.id && a.idx < b.idx;
        if !ops.is_empty() && ops.len() <= FEW && ops.is_sorted_by(in_order) {
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
        // The position last: the steps of one counter stay in turn.
        order.sort_unstable_by_key(|&i| (ops[i].id, ops[i].idx, i));
        out.resize(ops.len(), 0);
        match self.plan(ops, &order, o, out, &mut finals) {
            Some(saturated) => Ok(Changes {
                changed: self.carry_out(&finals),
                saturated,
            }),
            None => {
                out.clear();
                Err(CountError::Overflow)
            }
        }
    }

    /// [`incr_all`](Self::incr_all) of a few counters of one row, all different.
    fn incr_row(
        &mut self,
        ops: &[Op],
        o: Overflow,
        out: &mut Vec<u64>,
    ) -> Result<Changes, CountError> {
        let Some((place, row)) = self.find(ops[0].id) else {
            return self.create_row(ops, o, out);
        };
        let page = self.pages.get(place).1;
        let mut slots = page.slots(row);
        let mut stores = [None; FEW];
        let (mut changed, mut quick, mut saturated) = (false, true, 0);
        for (op, store) in ops.iter().zip(&mut stores) {
            let slot = slots.slot(op.idx);
            let old = slot.map_or(0, |slot| page.load(slot));
            let step = Step::saturating(old, op.delta);
            if step.saturated && o == Overflow::Fail {
                out.clear();
                return Err(CountError::Overflow);
            }
            changed |= step.new != old;
            quick &= slot.is_some_and(|slot| keeps_width(slot, old, step.new));
            saturated += u64::from(step.saturated);
            *store = slot;
            out.push(step.new);
        }
        if changed && quick {
            let page = self.pages.get_mut(place);
            for (slot, &value) in stores.iter().flatten().zip(&*out) {
                page.store(*slot, value);
            }
        } else if changed {
            self.write(place, row, &fields_of(ops, out)[..ops.len()]);
        }
        Ok(Changes { changed, saturated })
    }

    fn create_row(
        &mut self,
        ops: &[Op],
        o: Overflow,
        out: &mut Vec<u64>,
    ) -> Result<Changes, CountError> {
        let mut saturated = 0;
        for op in ops {
            let step = Step::saturating(0, op.delta);
            saturated += u64::from(step.saturated);
            out.push(step.new);
        }
        if saturated > 0 && o == Overflow::Fail {
            out.clear();
            return Err(CountError::Overflow);
        }
        self.insert(ops[0].id, &fields_of(ops, out)[..ops.len()]);
        Ok(Changes {
            changed: true,
            saturated,
        })
    }

    /// Works out the value after each step, and the last one of each counter, in order. The number of steps that were
    /// cut off; None where one may not be.
    fn plan(
        &self,
        ops: &[Op],
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
                    let step = Step::saturating(value, ops[i].delta);
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

    /// Writes the rows; whether any of them is another now.
    fn carry_out(&mut self, finals: &[(u64, (usize, u64))]) -> bool {
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

/// Each counter with its new value, in an array of which as many as there are `ops` count.
fn fields_of(ops: &[Op], values: &[u64]) -> [(usize, u64); FEW] {
    let mut fields = [(0, 0); FEW];
    for ((field, op), &value) in fields.iter_mut().zip(ops).zip(values) {
        *field = (op.idx, value);
    }
    fields
}
