//! The buffers that commands reuse.

use std::cell::Cell;

use countint_core::counttab::Op;

use crate::error::Error;
use crate::scratch::Scratch;

thread_local! {
    static INCREMENTS: Cell<Vec<(usize, i64)>> = const { Cell::new(Vec::new()) };
    static ROW_INCREMENTS: Cell<Vec<Op>> = const { Cell::new(Vec::new()) };
    static NUMBERS: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
    static BYTES: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// For increments of an object: (idx, delta).
pub fn increments() -> Scratch<(usize, i64)> {
    Scratch::take(&INCREMENTS)
}

/// For increments of rows.
pub fn row_increments() -> Scratch<Op> {
    Scratch::take(&ROW_INCREMENTS)
}

/// For ids and counter values.
pub fn numbers() -> Scratch<u64> {
    Scratch::take(&NUMBERS)
}

/// For `len` counter values, allocated in advance: a buffer that grew while a value is changed would be measured as part
/// of the value.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub fn values(len: usize) -> Result<Scratch<u64>, Error> {
    let mut values = numbers();
    let reserved = values.try_reserve(len);
    reserved.map_err(|_| Error::OutOfMemory)?;
    Ok(values)
}

/// For replies of packed counters.
pub fn bytes() -> Scratch<u8> {
    Scratch::take(&BYTES)
}
