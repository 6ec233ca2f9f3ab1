//! A set as the bare pointer that a server keeps as a module's value, and what an owner keeps with it.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use super::IdSet;
use super::thin::{Ref, RefMut, Thin};

impl IdSet {
    /// Gives the set away as a pointer, of no meaning to anybody else. [`IdSet::from_raw`] takes it back.
    pub fn into_raw(self) -> NonNull<u8> {
        self.0.into_raw()
    }

    /// The pointer that [`IdSet::into_raw`] would give. It differs after a change that has moved the set.
    #[inline]
    pub fn as_raw(&self) -> NonNull<u8> {
        self.0.as_raw()
    }

    /// Takes a set back.
    ///
    /// # Safety
    /// `pointer` came from [`IdSet::into_raw`] and is taken back once; or it is, but no more than one of the sets made of
    /// it is ever changed or dropped, and none of the others used after that.
    #[inline]
    pub unsafe fn from_raw(pointer: NonNull<u8>) -> IdSet {
        // SAFETY: the caller's promise.
        IdSet(unsafe { Thin::from_raw(pointer) })
    }

    /// Where the set is, if it is a single allocation: not when it is empty, which takes none, nor when it is large.
    #[inline]
    pub fn allocation(&self) -> Option<NonNull<u8>> {
        match self.0.get() {
            Ref::Page(page) if !page.is_empty() => Some(self.0.as_raw()),
            _ => None,
        }
    }

    /// What was noted with [`IdSet::note`]; 0 for a set that cannot keep it.
    #[inline]
    pub fn noted(&self) -> usize {
        match self.0.get() {
            Ref::Page(_) => 0,
            Ref::Boxed(tree) => tree.noted,
        }
    }

    /// Keeps a number for the set's owner. Only a large set does: one that is a single allocation has no room for it.
    #[inline]
    pub fn note(&mut self, number: usize) {
        if let RefMut::Boxed(tree) = self.0.get_mut() {
            tree.noted = number;
        }
    }
}
