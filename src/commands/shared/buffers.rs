//! Reusable buffers of commands.

use std::cell::Cell;

use countint_core::counttab::RowIncrement;

use crate::error::Error;
use crate::scratch::Scratch;

thread_local! {
    static INCREMENTS: Cell<Vec<(usize, i64)>> = const { Cell::new(Vec::new()) };
    static ROW_INCREMENTS: Cell<Vec<RowIncrement>> = const { Cell::new(Vec::new()) };
    static NUMBERS: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
    static POSITIONS: Cell<Vec<usize>> = const { Cell::new(Vec::new()) };
    static BYTES: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A buffer for increments of an object: (idx, delta).
pub fn increments() -> Scratch<(usize, i64)> {
    Scratch::take(&INCREMENTS)
}

/// A buffer for increments of rows.
pub fn row_increments() -> Scratch<RowIncrement> {
    Scratch::take(&ROW_INCREMENTS)
}

/// A buffer for ids and counter values.
pub fn numbers() -> Scratch<u64> {
    Scratch::take(&NUMBERS)
}

/// A buffer for `len` counter values, allocated in advance: growth during a change would be measured as memory of the
/// value.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub fn values(len: usize) -> Result<Scratch<u64>, Error> {
    let mut values = numbers();
    let reserved = values.try_reserve(len);
    reserved.map_err(|_| Error::OutOfMemory)?;
    Ok(values)
}

/// A buffer for positions of arguments.
pub fn positions() -> Scratch<usize> {
    Scratch::take(&POSITIONS)
}

/// A buffer for text and for replies of packed counters.
pub fn bytes() -> Scratch<u8> {
    Scratch::take(&BYTES)
}
