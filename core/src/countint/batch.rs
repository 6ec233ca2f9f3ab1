//! Batches of changes: all or nothing, in time proportional to the batch.
//!
//! A batch can change a field several times and restore its value. To report whether anything changed,
//! [`for_each_distinct_index`] compares the first and the last value of each field once. It uses a bitmap of the fields
//! on the stack.

use super::cell::MAX_LEN;
use super::error::CountError;
use super::fields::{FIELD_MAX, Fields, IncrResult, Overflow};

/// The result of [`Fields::incr_all`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchResult {
    /// Whether the final value of any field differs from its first. +1 and -1 on one field are not a change.
    pub changed: bool,
    /// The number of increments that stopped at 0 or at [`FIELD_MAX`].
    pub saturated: u64,
}

impl Fields {
    /// Adds each delta to its field, in order; indexes can be repeated. All or nothing.
    ///
    /// `out` is cleared, then receives the value after each increment; after an error it is empty. O(k) for k pairs. Only
    /// `out` is allocated.
    ///
    /// # Errors
    /// [`CountError::IndexOutOfRange`] for any pair, else [`CountError::OutOfMemory`] when `out` cannot grow, else
    /// [`CountError::Overflow`] under [`Overflow::Fail`].
    pub fn incr_all(
        &mut self,
        ops: &[(usize, i64)],
        o: Overflow,
        out: &mut Vec<u64>,
    ) -> Result<BatchResult, CountError> {
        out.clear();
        // The common case: clients name the fields of an object in order, each once. Then the last index is the largest,
        // and a field has changed if its only increment changed it.
        if ops.is_sorted_by(|a, b| a.0 < b.0) {
            self.check_indexes(&ops[ops.len().saturating_sub(1)..])?;
            out.try_reserve(ops.len())
                .map_err(|_| CountError::OutOfMemory)?;
            return self.incr_distinct(ops, o, out);
        }
        self.check_indexes(ops)?;
        out.try_reserve(ops.len())
            .map_err(|_| CountError::OutOfMemory)?;
        self.incr_repeated(ops, o, out)
    }

    /// [`incr_all`](Fields::incr_all) of pairs whose indexes are in range and distinct.
    #[inline]
    fn incr_distinct(
        &mut self,
        ops: &[(usize, i64)],
        o: Overflow,
        out: &mut Vec<u64>,
    ) -> Result<BatchResult, CountError> {
        let (mut changed, mut saturated) = (false, 0);
        for &(idx, delta) in ops {
            match self.incr(idx, delta, o) {
                Ok(step) => {
                    changed |= step.new != step.old;
                    saturated += u64::from(step.saturated);
                    out.push(step.new);
                }
                Err(e) => {
                    // Increments did not saturate, so subtracting them restores the values.
                    for (&(idx, delta), &value) in ops.iter().zip(out.iter()) {
                        self.replace(idx, value.wrapping_sub_signed(delta));
                    }
                    out.clear();
                    return Err(e);
                }
            }
        }
        Ok(BatchResult { changed, saturated })
    }

    /// [`incr_all`](Fields::incr_all) of pairs whose indexes are in range and can be repeated.
    fn incr_repeated(
        &mut self,
        ops: &[(usize, i64)],
        o: Overflow,
        out: &mut Vec<u64>,
    ) -> Result<BatchResult, CountError> {
        // Until the last loop, `out` contains the value before each increment. They undo a batch that fails, and the first
        // one of a field tells whether the field changed. The last loop replaces them with the values after.
        let mut saturated = 0;
        for &(idx, delta) in ops {
            match self.incr(idx, delta, o) {
                Ok(step) => {
                    saturated += u64::from(step.saturated);
                    out.push(step.old);
                }
                Err(e) => {
                    self.undo(ops, out);
                    out.clear();
                    return Err(e);
                }
            }
        }
        let changed = self.differs(ops, out);
        for (value, &(_, delta)) in out.iter_mut().zip(ops) {
            *value = IncrResult::saturating(*value, delta).new;
        }
        Ok(BatchResult { changed, saturated })
    }

    /// Sets each field to its value; of a repeated index, the last value counts. All or nothing.
    ///
    /// Returns whether any field changed. O(k) for k pairs, without allocation.
    ///
    /// # Errors
    /// [`CountError::ValueOutOfRange`] for any pair, else [`CountError::IndexOutOfRange`] for any.
    pub fn set_all(&mut self, ops: &[(usize, u64)]) -> Result<bool, CountError> {
        if ops.iter().any(|&(_, value)| value > FIELD_MAX) {
            return Err(CountError::ValueOutOfRange);
        }
        self.check_indexes(ops)?;
        if let &[(idx, value)] = ops {
            return Ok(self.replace(idx, value) != Some(value));
        }
        let mut changed = false;
        // In reverse, so that the first visit of a field is its last value.
        for_each_distinct_index(self.len(), ops.iter().rev().copied(), |idx, value| {
            changed |= self.replace(idx, value) != Some(value);
        });
        Ok(changed)
    }

    fn check_indexes<T>(&self, ops: &[(usize, T)]) -> Result<(), CountError> {
        match ops.iter().all(|&(idx, _)| idx < self.len()) {
            true => Ok(()),
            false => Err(CountError::IndexOutOfRange),
        }
    }

    /// Undoes the first increments of `ops`, given the values before each of them.
    fn undo(&mut self, ops: &[(usize, i64)], before: &[u64]) {
        for (&(idx, _), &value) in ops.iter().zip(before).rev() {
            self.replace(idx, value);
        }
    }

    /// Whether any field of `ops` differs from its value before the first increment.
    fn differs(&self, ops: &[(usize, i64)], before: &[u64]) -> bool {
        let steps = ops
            .iter()
            .zip(before)
            .map(|(&(idx, _), &value)| (idx, value));
        // Fast path: the first field has nearly always changed.
        if steps
            .clone()
            .next()
            .is_some_and(|(idx, value)| self.get(idx) != Some(value))
        {
            return true;
        }
        let mut changed = false;
        for_each_distinct_index(self.len(), steps, |idx, value| {
            changed |= self.get(idx) != Some(value)
        });
        changed
    }
}

/// Calls `visit` with the first pair of each distinct index. Every index is less than `len`, at most [`MAX_LEN`].
#[inline]
fn for_each_distinct_index(
    len: usize,
    pairs: impl Iterator<Item = (usize, u64)>,
    visit: impl FnMut(usize, u64),
) {
    const FEW: usize = 64;

    /// Not inlined, so that callers with few fields do not reserve 8 KiB of stack.
    #[inline(never)]
    fn among_many(pairs: impl Iterator<Item = (usize, u64)>, visit: impl FnMut(usize, u64)) {
        visit_distinct_of::<{ MAX_LEN.div_ceil(64) }>(pairs, visit);
    }

    match len {
        0..=FEW => visit_distinct_of::<{ FEW / 64 }>(pairs, visit),
        _ => among_many(pairs, visit),
    }
}

/// [`for_each_distinct_index`] for objects of at most `64 * WORDS` fields.
#[inline]
fn visit_distinct_of<const WORDS: usize>(
    pairs: impl Iterator<Item = (usize, u64)>,
    mut visit: impl FnMut(usize, u64),
) {
    let mut seen = [0_u64; WORDS];
    for (idx, value) in pairs {
        let (word, bit) = (&mut seen[idx / 64], 1 << (idx % 64));
        if *word & bit == 0 {
            *word |= bit;
            visit(idx, value);
        }
    }
}
