//! `RoaringBM`: an exact set of 64-bit ids; see `countint_core::idset`.
//!
//! The server keeps the set's own pointer, which a change may replace. A key never holds an empty set, except while a
//! command deletes the key.

use std::ffi::{CStr, c_int};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;

use countint_core::idset::{BlobLoader, IdSet};

use super::data_type::DataType;
use crate::server::alloc;
use crate::server::aof::{AofWriter, MAX_CHUNK};
use crate::server::content::TypeHandle;
use crate::server::defrag::Defrag;
use crate::server::digest::Digest;
use crate::server::key::OpenKey;
use crate::server::rdb::{Loader, Rejected, Saver};
use crate::stats::{self, Totals};

static HANDLE: TypeHandle = TypeHandle::new();

/// Builds a set with `make`, and records its size.
pub fn build<E>(make: impl FnOnce() -> Result<IdSet, E>) -> Result<IdSet, E> {
    let (set, bytes) = alloc::measured(make);
    let mut set = set?;
    set.set_accounted_bytes(bytes.max(0) as usize);
    Ok(set)
}

/// Changes a set that a key holds and updates its size and the totals.
fn change<R>(set: &mut IdSet, change: impl FnOnce(&mut IdSet) -> R) -> R {
    change_from(set.bytes(), set, change)
}

/// Moves the members of `other` into a set that a key holds, and returns how many were new.
fn absorb(set: &mut IdSet, other: IdSet) -> u64 {
    // The other set's bytes now belong to this one; `change_from` subtracts what the union frees.
    let bytes = other.bytes();
    stats::IDSET.resize(0, bytes as i64);
    change_from(set.bytes() + bytes, set, |set| set.union_with(other))
}

/// Like [`change`], for a set whose size was `before`.
fn change_from<R>(before: usize, set: &mut IdSet, change: impl FnOnce(&mut IdSet) -> R) -> R {
    let members = set.len();
    let (result, grown) = alloc::measured(|| change(set));
    set.set_accounted_bytes(before.saturating_add_signed(grown));
    stats::IDSET.resize(set.len() as i64 - members as i64, grown as i64);
    result
}

/// The set that an open key holds.
pub struct SetRef<'v> {
    set: ManuallyDrop<IdSet>,
    key: PhantomData<&'v ()>,
}

impl Deref for SetRef<'_> {
    type Target = IdSet;

    #[inline]
    fn deref(&self) -> &IdSet {
        &self.set
    }
}

/// The set that a key open for writing holds.
pub struct SetMut<'v> {
    set: ManuallyDrop<IdSet>,
    key: &'v mut OpenKey,
}

impl Deref for SetMut<'_> {
    type Target = IdSet;

    #[inline]
    fn deref(&self) -> &IdSet {
        &self.set
    }
}

impl SetMut<'_> {
    /// Changes the set and updates its size and the totals. The call must have begun its effects: after a panic, the key
    /// may refer to a freed value.
    #[inline]
    pub fn change<R>(&mut self, change: impl FnOnce(&mut IdSet) -> R) -> R {
        self.update(|set| self::change(set, change))
    }

    /// Adds the members of another set, and returns how many were new. The call must have begun its effects.
    pub fn absorb(&mut self, other: IdSet) -> u64 {
        self.update(|set| absorb(set, other))
    }

    /// Runs `change`, and passes the set's new pointer to the server if it has changed.
    #[inline]
    fn update<R>(&mut self, change: impl FnOnce(&mut IdSet) -> R) -> R {
        let before = self.set.as_raw();
        let result = change(&mut self.set);
        let after = self.set.as_raw();
        if after != before {
            // SAFETY: the key is open for writing and holds this set, whose pointer is `after`. The old pointer is not
            // used: the change has freed it.
            unsafe { self.key.replace_value(&HANDLE, after) };
        }
        result
    }
}

// SAFETY: the handle is this type's own. The pointers are those of `IdSet::into_raw`.
unsafe impl DataType for IdSet {
    const NAME: &'static CStr = c"RoaringBM";

    /// Version 1: the cardinality, then blobs, the last one empty.
    const ENCODING: c_int = 1;

    type Ref<'v> = SetRef<'v>;
    type Mut<'v> = SetMut<'v>;

    #[inline]
    fn handle() -> &'static TypeHandle {
        &HANDLE
    }

    fn totals() -> &'static Totals {
        &stats::IDSET
    }

    fn into_raw(self) -> NonNull<u8> {
        IdSet::into_raw(self)
    }

    // SAFETY: the trait states what the caller guarantees.
    #[inline]
    unsafe fn from_raw(value: NonNull<u8>) -> Self {
        // SAFETY: the caller's promise.
        unsafe { IdSet::from_raw(value) }
    }

    #[inline]
    unsafe fn borrow<'v>(value: NonNull<u8>) -> SetRef<'v> {
        SetRef {
            // SAFETY: the caller's promise; ManuallyDrop leaves the set to the server.
            set: ManuallyDrop::new(unsafe { IdSet::from_raw(value) }),
            key: PhantomData,
        }
    }

    #[inline]
    unsafe fn borrow_mut<'v>(value: NonNull<u8>, key: &'v mut OpenKey) -> SetMut<'v> {
        SetMut {
            // SAFETY: the caller's promise; ManuallyDrop leaves the set to the server.
            set: ManuallyDrop::new(unsafe { IdSet::from_raw(value) }),
            key,
        }
    }

    fn elements(&self) -> u64 {
        self.len()
    }

    /// The size of the set's only allocation, or the recorded size of all of them.
    fn bytes(&self) -> usize {
        match self.allocation() {
            // SAFETY: a live allocation with an alignment of 8.
            Some(place) => unsafe { alloc::allocated_size(place.as_ptr()) },
            None => self.accounted_bytes(),
        }
    }

    fn load(loader: &Loader, encoding: c_int) -> Result<Self, Rejected> {
        if encoding != Self::ENCODING {
            return Err(Rejected);
        }
        let set = build(|| {
            let mut blobs = BlobLoader::new(loader.unsigned()?);
            loader.blobs(|blob| blobs.push(blob))?;
            blobs.finish().map_err(|_| Rejected)
        })?;
        // No key holds an empty set, so none is ever saved.
        if set.is_empty() {
            Err(Rejected)
        } else {
            Ok(set)
        }
    }

    fn save(&self, saver: &Saver) {
        saver.unsigned(self.len());
        self.save_blobs(&mut |blob| saver.string(blob));
        saver.string(&[]);
    }

    fn aof_rewrite(&self, aof: &AofWriter) {
        self.export_chunks(MAX_CHUNK, &mut |chunk| {
            aof.emit(c"RBM.IMPORT", chunk);
            true
        });
    }

    fn digest(&self, digest: &Digest) {
        for member in self.iter() {
            digest.add(&member.to_le_bytes());
        }
    }

    fn copy(&self) -> Option<Self> {
        build(|| Ok::<_, Rejected>(self.clone())).ok()
    }

    fn free_effort(&self) -> usize {
        IdSet::free_effort(self)
    }

    fn defrag_step(mut self, defrag: &Defrag, cursor: u64) -> (Self, Option<u64>) {
        let next = change(&mut self, |set| {
            defrag.moving(|| IdSet::defrag_step(set, cursor))
        });
        (self, next)
    }
}
