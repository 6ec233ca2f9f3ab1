//! Thread-local buffers that are reused between calls: parsed arguments, values and replies.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::thread::LocalKey;

/// A buffer with a larger capacity than this is freed after its use.
const MAX_KEPT: usize = 4096;

/// The thread-local slot of a buffer between uses.
type Slot<T> = LocalKey<Cell<Vec<T>>>;

/// An empty buffer, taken from its slot until dropped.
pub struct Scratch<T: 'static> {
    buffer: Vec<T>,
    slot: &'static Slot<T>,
}

impl<T> Scratch<T> {
    /// Takes the buffer of `slot`.
    pub fn take(slot: &'static Slot<T>) -> Self {
        Scratch {
            buffer: slot.take(),
            slot,
        }
    }
}

impl<T> Drop for Scratch<T> {
    fn drop(&mut self) {
        if self.buffer.capacity() <= MAX_KEPT {
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
