//! `CountTab5`: a table of counters; see `countint_core::counttab`.

use std::ffi::{c_int, c_void};
use std::ptr;

use countint_core::countint::CountError;
use countint_core::counttab::{BlobLoader, CountTab, ImportError};
use redis_module::raw;

use super::io::{self, Loader, Rejected};
use super::{Native, no_methods};
use crate::api::api;
use crate::{alloc, guard, stats};

/// The encoding of RDB bodies that we write: the length, the number of rows, the fences, then blobs of pages, the last
/// one empty. Older ones stay loadable for ever.
const ENCODING: c_int = 1;

/// The type.
pub static COUNTTAB: Native = Native::new(c"CountTab5", ENCODING);

/// The value behind a key: a table and its size.
pub struct TableObject {
    table: CountTab,
    /// The bytes of the object's own allocation and of all that it points to, as the allocator rounds them.
    bytes: usize,
}

impl TableObject {
    /// Takes the table that `make` builds.
    pub fn build<E>(make: impl FnOnce() -> Result<CountTab, E>) -> Result<Box<TableObject>, E> {
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

    /// Changes the table, keeping count of its bytes and of the totals.
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

    /// Takes over the rows of another table, all of them or none. Whether anything is another now.
    pub fn absorb(&mut self, other: Box<TableObject>) -> Result<bool, ImportError> {
        // Its bytes are this one's from now on; `change` subtracts what is freed, the box among it.
        self.bytes += other.bytes;
        stats::COUNTTAB.resize(0, other.bytes as i64);
        self.change(move |table| {
            let TableObject { table: rows, .. } = *other;
            table.absorb(rows)
        })
    }

    /// The bytes of the object and of all that it points to, as the allocator rounds them.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A value has come into the server's hands.
pub fn created(object: &TableObject) {
    stats::COUNTTAB.add(object.table.rows(), object.bytes());
}

/// The callbacks.
pub fn methods() -> raw::RedisModuleTypeMethods {
    raw::RedisModuleTypeMethods {
        rdb_load: Some(rdb_load),
        rdb_save: Some(rdb_save),
        aof_rewrite: Some(aof_rewrite),
        mem_usage: Some(mem_usage),
        digest: Some(digest),
        free: Some(free),
        free_effort: Some(free_effort),
        unlink: Some(super::unlink),
        copy: Some(copy),
        defrag: Some(defrag),
        ..no_methods()
    }
}

/// A value that the server holds, for as long as a callback runs.
fn borrowed<'a>(value: *const c_void) -> &'a TableObject {
    // SAFETY: the server passes what `Box::into_raw` gave, and changes nothing while a callback reads it.
    unsafe { &*value.cast::<TableObject>() }
}

fn into_value(object: Box<TableObject>) -> *mut c_void {
    created(&object);
    Box::into_raw(object).cast()
}

unsafe extern "C" fn rdb_load(rdb: *mut raw::RedisModuleIO, encoding: c_int) -> *mut c_void {
    let loader = Loader::new(rdb);
    match guard::harmless(Err(Rejected), || {
        TableObject::build(|| load(&loader, encoding))
    }) {
        Ok(object) => into_value(object),
        Err(Rejected) => {
            loader.reject(COUNTTAB.name);
            ptr::null_mut()
        }
    }
}

fn load(loader: &Loader, encoding: c_int) -> Result<CountTab, Rejected> {
    if encoding != ENCODING {
        return Err(Rejected);
    }
    let rejected = |_: CountError| Rejected;
    let (len, rows) = (loader.unsigned()?, loader.unsigned()?);
    let mut pages = BlobLoader::new(len, rows, &loader.string()?).map_err(rejected)?;
    loader.blobs(|blob| pages.push(blob))?;
    pages.finish().map_err(rejected)
}

unsafe extern "C" fn rdb_save(rdb: *mut raw::RedisModuleIO, value: *mut c_void) {
    guard::vital("saving a table", || {
        let table = borrowed(value).table();
        io::save_unsigned(rdb, table.len() as u64);
        io::save_unsigned(rdb, table.rows());
        io::save_string(rdb, &table.save_fences());
        table.save_blobs(&mut |blob| io::save_string(rdb, blob));
        io::save_string(rdb, &[]);
    });
}

unsafe extern "C" fn aof_rewrite(
    aof: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    value: *mut c_void,
) {
    guard::vital("rewriting a table", || {
        borrowed(value)
            .table()
            .export_chunks(io::CHUNK, &mut |chunk| {
                io::emit(aof, c"CTAB.IMPORT", key, chunk);
            });
    });
}

unsafe extern "C" fn mem_usage(value: *const c_void) -> usize {
    guard::harmless(0, || borrowed(value).bytes())
}

/// The length, the fences and the rows, each an element: how rows are put into pages does not matter. Of a row, the id
/// and the counters that are not 0.
unsafe extern "C" fn digest(digest: *mut raw::RedisModuleDigest, value: *mut c_void) {
    guard::harmless((), || {
        let table = borrowed(value).table();
        let mut element = (table.len() as u64).to_le_bytes().to_vec();
        element.extend_from_slice(&table.save_fences());
        io::digest_element(digest, &element);
        table.for_each_row(|id, fields| {
            element.clear();
            element.extend_from_slice(&id.to_le_bytes());
            for &(idx, value) in fields {
                element.extend_from_slice(&(idx as u16).to_le_bytes());
                element.extend_from_slice(&value.to_le_bytes());
            }
            io::digest_element(digest, &element);
        });
    });
}

unsafe extern "C" fn free(value: *mut c_void) {
    guard::vital("freeing a table", || {
        // SAFETY: the server gives the value up.
        let object = unsafe { Box::from_raw(value.cast::<TableObject>()) };
        stats::COUNTTAB.remove(object.table.rows(), object.bytes());
    });
}

unsafe extern "C" fn free_effort(_key: *mut raw::RedisModuleString, value: *const c_void) -> usize {
    guard::harmless(1, || borrowed(value).table().free_effort().max(1))
}

unsafe extern "C" fn copy(
    _from: *mut raw::RedisModuleString,
    _to: *mut raw::RedisModuleString,
    value: *const c_void,
) -> *mut c_void {
    guard::harmless(ptr::null_mut(), || {
        match TableObject::build(|| Ok::<_, Rejected>(borrowed(value).table().clone())) {
            Ok(object) => into_value(object),
            Err(Rejected) => ptr::null_mut(),
        }
    })
}

unsafe extern "C" fn defrag(
    ctx: *mut raw::RedisModuleDefragCtx,
    _key: *mut raw::RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    guard::vital("moving a table", || {
        // SAFETY: the server passes the place where it keeps the pointer to our Box.
        let place = unsafe { &mut *value };
        let cursor = io::defrag_cursor(ctx);
        if cursor == 0 {
            let moved = api!(RedisModule_DefragAlloc(ctx, *place));
            if !moved.is_null() {
                *place = moved;
            }
        }
        // SAFETY: the Box, wherever it is now; nothing else runs meanwhile.
        let object = unsafe { &mut *place.cast::<TableObject>() };
        io::defrag_parts(ctx, cursor, |at| {
            object.change(|table| alloc::moving(ctx, || table.defrag_step(at)))
        })
    })
}
