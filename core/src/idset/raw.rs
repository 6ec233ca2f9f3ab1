//! Conversion of a set to a raw pointer and back, and the memory that its owner accounts for it.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use super::set::IdSet;
use super::tagged_pointer::{Ref, RefMut, TaggedPointer};

impl IdSet {
    /// Converts the set to an opaque pointer, which [`IdSet::from_raw`] converts back.
    pub fn into_raw(self) -> NonNull<u8> {
        self.0.into_raw()
    }

    /// The pointer that [`IdSet::into_raw`] would return. A change that moves the set changes it.
    #[inline]
    pub fn as_raw(&self) -> NonNull<u8> {
        self.0.as_raw()
    }

    /// Converts a pointer back to a set.
    ///
    /// # Safety
    /// `pointer` came from [`IdSet::into_raw`]. At most one of the sets made from it is changed or dropped, and the
    /// others are not used after that.
    #[inline]
    pub unsafe fn from_raw(pointer: NonNull<u8>) -> IdSet {
        // SAFETY: the caller's promise.
        IdSet(unsafe { TaggedPointer::from_raw(pointer) })
    }

    /// The allocation of a set in the encoding `compact`; `None` for an empty or a larger set.
    #[inline]
    pub fn allocation(&self) -> Option<NonNull<u8>> {
        match self.0.get() {
            Ref::Page(page) if !page.is_empty() => Some(self.0.as_raw()),
            _ => None,
        }
    }

    /// The bytes stored with [`IdSet::set_accounted_bytes`]; 0 for a set that cannot store them.
    #[inline]
    pub fn accounted_bytes(&self) -> usize {
        match self.0.get() {
            Ref::Page(_) => 0,
            Ref::Boxed(tree) => tree.accounted_bytes,
        }
    }

    /// Stores the memory that the owner accounts for the set. Ignored for a set of a single allocation, whose size the
    /// allocator reports.
    #[inline]
    pub fn set_accounted_bytes(&mut self, bytes: usize) {
        if let RefMut::Boxed(tree) = self.0.get_mut() {
            tree.accounted_bytes = bytes;
        }
    }
}
