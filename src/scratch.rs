//! Buffers that commands use again and again instead of allocating: parsed arguments and results on their way out.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::thread::LocalKey;

use countint_core::counttab::Op;

use crate::error::Error;
use crate::found::Found;

/// A buffer that grew beyond this many elements is given back to the allocator after its use.
const KEEP: usize = 4096;

type Slot<T> = LocalKey<Cell<Vec<T>>>;

thread_local! {
    static STEPS: Cell<Vec<(usize, i64)>> = const { Cell::new(Vec::new()) };
    static OPS: Cell<Vec<Op>> = const { Cell::new(Vec::new()) };
    static NUMBERS: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
    static FOUND: Cell<Vec<Found>> = const { Cell::new(Vec::new()) };
    static BYTES: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// An empty buffer, borrowed from its slot until dropped.
pub struct Scratch<T: 'static> {
    buffer: Vec<T>,
    slot: &'static Slot<T>,
}

/// For increments: (idx, delta).
pub fn steps() -> Scratch<(usize, i64)> {
    Scratch::take(&STEPS)
}

/// For increments of a table's counters.
pub fn ops() -> Scratch<Op> {
    Scratch::take(&OPS)
}

/// For members and counter values.
pub fn numbers() -> Scratch<u64> {
    Scratch::take(&NUMBERS)
}

/// For `len` values of counters, with room for all of them already: a value that is being measured must not be charged
/// for a buffer that grows meanwhile.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub fn values(len: usize) -> Result<Scratch<u64>, Error> {
    let mut values = numbers();
    let room = values.try_reserve(len);
    room.map_err(|_| Error::OutOfMemory)?;
    Ok(values)
}

/// For what several keys hold.
pub fn found() -> Scratch<Found> {
    Scratch::take(&FOUND)
}

/// For replies of packed fields.
pub fn bytes() -> Scratch<u8> {
    Scratch::take(&BYTES)
}

impl<T> Scratch<T> {
    fn take(slot: &'static Slot<T>) -> Self {
        Scratch {
            buffer: slot.take(),
            slot,
        }
    }
}

impl<T> Drop for Scratch<T> {
    fn drop(&mut self) {
        if self.buffer.capacity() <= KEEP {
            self.buffer.clear();
            self.slot.set(std::mem::take(&mut self.buffer));
        }
    }
}

impl<T> Deref for Scratch<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.buffer
    }
}

impl<T> DerefMut for Scratch<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.buffer
    }
}
