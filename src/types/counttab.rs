//! `CountTab5`: a table of counters; see `countint_core::counttab`.

use std::ffi::{CStr, c_int};
use std::ptr::NonNull;

use countint_core::countint::CountError;
use countint_core::counttab::{BlobLoader, CountTab, ImportError};

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

/// The value of a key.
pub type Table = Box<TableObject>;

/// A table and its size in memory.
pub struct TableObject {
    table: CountTab,
    /// The bytes of all allocations, including the object's own, as the allocator rounds them.
    bytes: usize,
}

impl TableObject {
    /// Wraps the table that `make` builds, and measures it.
    pub fn build<E>(make: impl FnOnce() -> Result<CountTab, E>) -> Result<Table, E> {
        let (object, bytes) =
            alloc::measured(|| make().map(|table| Box::new(TableObject { table, bytes: 0 })));
        let mut object = object?;
        object.bytes = bytes.max(0) as usize;
        Ok(object)
    }

    /// The table.
    #[inline]
    pub fn table(&self) -> &CountTab {
        &self.table
    }

    /// Changes the table and updates its size and the totals.
    #[inline]
    pub fn change<R>(&mut self, change: impl FnOnce(&mut CountTab) -> R) -> R {
        let rows = self.table.rows();
        let (result, grown) = alloc::measured(|| change(&mut self.table));
        let added = self.table.rows().wrapping_sub(rows) as i64;
        if added != 0 || grown != 0 {
            self.bytes = self.bytes.saturating_add_signed(grown);
            stats::COUNTTAB.resize(added, grown as i64);
        }
        result
    }

    /// Moves the rows of another table into this one, all or none. Returns whether this table has changed.
    pub fn absorb(&mut self, other: Table) -> Result<bool, ImportError> {
        // The other table's bytes now belong to this one; `change` subtracts what is freed, including the box.
        self.bytes += other.bytes;
        stats::COUNTTAB.resize(0, other.bytes as i64);
        self.change(move |table| {
            let TableObject { table: rows, .. } = *other;
            table.absorb(rows)
        })
    }

    /// The bytes of all allocations.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

// SAFETY: the handle is this type's own. The pointers are those of `Box::into_raw`.
unsafe impl DataType for Table {
    const NAME: &'static CStr = c"CountTab5";

    /// Version 1: the length, the number of rows, the fences, then blobs of pages, the last one empty.
    const ENCODING: c_int = 1;

    type Ref<'v> = &'v TableObject;
    type Mut<'v> = &'v mut TableObject;

    #[inline]
    fn handle() -> &'static TypeHandle {
        &HANDLE
    }

    fn totals() -> &'static Totals {
        &stats::COUNTTAB
    }

    fn into_raw(self) -> NonNull<u8> {
        NonNull::from(Box::leak(self)).cast()
    }

    // SAFETY: the trait states what the caller guarantees.
    unsafe fn from_raw(value: NonNull<u8>) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Box::from_raw(value.as_ptr().cast()) }
    }

    #[inline]
    unsafe fn borrow<'v>(value: NonNull<u8>) -> &'v TableObject {
        // SAFETY: the caller's promise.
        unsafe { value.cast().as_ref() }
    }

    #[inline]
    unsafe fn borrow_mut(value: NonNull<u8>, _key: &mut OpenKey) -> &mut TableObject {
        // SAFETY: the caller's promise.
        unsafe { value.cast().as_mut() }
    }

    fn elements(&self) -> u64 {
        self.table.rows()
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn load(loader: &Loader, encoding: c_int) -> Result<Self, Rejected> {
        if encoding != Self::ENCODING {
            return Err(Rejected);
        }
        let rejected = |_: CountError| Rejected;
        TableObject::build(|| {
            let (len, rows) = (loader.unsigned()?, loader.unsigned()?);
            let mut pages = BlobLoader::new(len, rows, &loader.string()?).map_err(rejected)?;
            loader.blobs(|blob| pages.push(blob))?;
            pages.finish().map_err(rejected)
        })
    }

    fn save(&self, saver: &Saver) {
        saver.unsigned(self.table.len() as u64);
        saver.unsigned(self.table.rows());
        saver.string(&self.table.save_fences());
        self.table.save_blobs(&mut |blob| saver.string(blob));
        saver.string(&[]);
    }

    fn aof_rewrite(&self, aof: &AofWriter) {
        self.table
            .export_chunks(MAX_CHUNK, &mut |chunk| aof.emit(c"CTAB.IMPORT", chunk));
    }

    /// The elements are the length with the fences, and each row: its id and the counters that are not 0. So the digest
    /// does not depend on the pages.
    fn digest(&self, digest: &Digest) {
        let mut element = (self.table.len() as u64).to_le_bytes().to_vec();
        element.extend_from_slice(&self.table.save_fences());
        digest.add(&element);
        self.table.for_each_row(|id, fields| {
            element.clear();
            element.extend_from_slice(&id.to_le_bytes());
            for &(idx, value) in fields {
                element.extend_from_slice(&(idx as u16).to_le_bytes());
                element.extend_from_slice(&value.to_le_bytes());
            }
            digest.add(&element);
        });
    }

    fn copy(&self) -> Option<Self> {
        TableObject::build(|| Ok::<_, Rejected>(self.table.clone())).ok()
    }

    fn free_effort(&self) -> usize {
        self.table.free_effort()
    }

    fn defrag_step(self, defrag: &Defrag, cursor: u64) -> (Self, Option<u64>) {
        let mut object = self;
        if cursor == 0 {
            let value = object.into_raw();
            // SAFETY: the box's own allocation, at its new address from here on.
            object = unsafe { <Self as DataType>::from_raw(defrag.move_allocation(value)) };
        }
        let next = object.change(|table| defrag.moving(|| table.defrag_step(cursor)));
        (object, next)
    }
}
