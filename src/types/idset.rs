//! `RoaringBM`: an exact set of 64-bit ids; see `countint_core::idset`.

use std::ffi::{c_int, c_ulong, c_void};
use std::ptr;

use countint_core::idset::{BlobLoader, IdSet};
use redis_module::raw;

use super::io::{self, Loader, Rejected};
use super::{Native, no_methods};
use crate::api::api;
use crate::{alloc, guard, stats};

/// The encoding of RDB bodies that we write: the cardinality, then blobs, the last one empty. Older ones stay
/// loadable for ever.
const ENCODING: c_int = 1;

/// The most bytes that one command of a rewritten append-only file carries.
const CHUNK: usize = 1 << 20;

/// The type.
pub static IDSET: Native = Native::new(c"RoaringBM", ENCODING);

/// The value behind a key: a set, never empty, and what it weighs.
pub struct SetObject {
    set: IdSet,
    /// The allocator's bytes of all that the set points to.
    heap: usize,
}

impl SetObject {
    /// Takes the set that `make` builds.
    pub fn build<E>(make: impl FnOnce() -> Result<IdSet, E>) -> Result<Box<SetObject>, E> {
        let (set, heap) = alloc::measured(make);
        Ok(Box::new(SetObject {
            set: set?,
            heap: heap.max(0) as usize,
        }))
    }

    /// The same where making cannot fail.
    pub fn of(make: impl FnOnce() -> IdSet) -> Box<SetObject> {
        let (set, heap) = alloc::measured(make);
        Box::new(SetObject {
            set,
            heap: heap.max(0) as usize,
        })
    }

    /// The set.
    pub fn set(&self) -> &IdSet {
        &self.set
    }

    /// Changes the set, keeping count of its bytes and of the totals.
    pub fn change<R>(&mut self, change: impl FnOnce(&mut IdSet) -> R) -> R {
        let members = self.set.len();
        let (result, grown) = alloc::measured(|| change(&mut self.set));
        self.heap = self.heap.saturating_add_signed(grown);
        stats::IDSET.resize(self.set.len() as i64 - members as i64, grown as i64);
        result
    }

    /// Takes in the members of another set, and tells how many were new.
    pub fn absorb(&mut self, other: SetObject) -> u64 {
        // What it weighs is this set's from now on; `change` takes off what the union frees.
        self.heap += other.heap;
        stats::IDSET.resize(0, other.heap as i64);
        self.change(|set| set.union_with(other.set))
    }

    /// The bytes of the object and of all that it points to, as the allocator rounds them.
    pub fn bytes(&self) -> usize {
        // SAFETY: a SetObject that the server holds is one live allocation (a Box) with an alignment of 8.
        self.heap + unsafe { alloc::allocated_size(ptr::from_ref(self).cast_mut().cast()) }
    }
}

/// A value has come into the server's hands.
pub fn created(set: &SetObject) {
    stats::IDSET.add(set.set.len(), set.bytes());
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
fn borrowed<'a>(value: *const c_void) -> &'a SetObject {
    // SAFETY: the server passes what `Box::into_raw` gave, and changes nothing while a callback reads it.
    unsafe { &*value.cast::<SetObject>() }
}

fn into_value(set: Box<SetObject>) -> *mut c_void {
    created(&set);
    Box::into_raw(set).cast()
}

unsafe extern "C" fn rdb_load(rdb: *mut raw::RedisModuleIO, encoding: c_int) -> *mut c_void {
    let loader = Loader::new(rdb);
    match guard::harmless(Err(Rejected), || {
        SetObject::build(|| load(&loader, encoding))
    }) {
        Ok(set) => into_value(set),
        Err(Rejected) => {
            loader.reject(IDSET.name);
            ptr::null_mut()
        }
    }
}

fn load(loader: &Loader, encoding: c_int) -> Result<IdSet, Rejected> {
    if encoding != ENCODING {
        return Err(Rejected);
    }
    let mut blobs = BlobLoader::new(loader.unsigned()?);
    loop {
        let blob = loader.string()?;
        if blob.is_empty() {
            break;
        }
        blobs.push(&blob).map_err(|_| Rejected)?;
    }
    let set = blobs.finish().map_err(|_| Rejected)?;
    // An empty set is no value: a key that holds one would never have been saved.
    if set.is_empty() {
        Err(Rejected)
    } else {
        Ok(set)
    }
}

unsafe extern "C" fn rdb_save(rdb: *mut raw::RedisModuleIO, value: *mut c_void) {
    guard::vital("saving a set", || {
        let set = borrowed(value).set();
        io::save_unsigned(rdb, set.len());
        set.save_blobs(&mut |blob| io::save_string(rdb, blob));
        io::save_string(rdb, &[]);
    });
}

unsafe extern "C" fn aof_rewrite(
    aof: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    value: *mut c_void,
) {
    guard::vital("rewriting a set", || {
        borrowed(value).set().export_chunks(CHUNK, &mut |chunk| {
            io::emit(aof, c"RBM.IMPORT", key, chunk);
            true
        });
    });
}

unsafe extern "C" fn mem_usage(value: *const c_void) -> usize {
    guard::harmless(0, || borrowed(value).bytes())
}

unsafe extern "C" fn digest(digest: *mut raw::RedisModuleDigest, value: *mut c_void) {
    guard::harmless((), || {
        for member in borrowed(value).set().iter() {
            io::digest_element(digest, &member.to_le_bytes());
        }
    });
}

unsafe extern "C" fn free(value: *mut c_void) {
    guard::vital("freeing a set", || {
        // SAFETY: the server gives the value up.
        let set = unsafe { Box::from_raw(value.cast::<SetObject>()) };
        stats::IDSET.remove(set.set.len(), set.bytes());
    });
}

unsafe extern "C" fn free_effort(_key: *mut raw::RedisModuleString, value: *const c_void) -> usize {
    guard::harmless(1, || borrowed(value).set().free_effort().max(1))
}

unsafe extern "C" fn copy(
    _from: *mut raw::RedisModuleString,
    _to: *mut raw::RedisModuleString,
    value: *const c_void,
) -> *mut c_void {
    guard::harmless(ptr::null_mut(), || {
        match SetObject::build(|| Ok::<_, Rejected>(borrowed(value).set().clone())) {
            Ok(set) => into_value(set),
            Err(Rejected) => ptr::null_mut(),
        }
    })
}

unsafe extern "C" fn defrag(
    ctx: *mut raw::RedisModuleDefragCtx,
    _key: *mut raw::RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    guard::vital("moving a set", || {
        // SAFETY: the server passes the place where it keeps the pointer to our Box.
        let place = unsafe { &mut *value };
        let mut cursor: c_ulong = 0;
        if api!(RedisModule_DefragCursorGet(ctx, &mut cursor)) != raw::REDISMODULE_OK as c_int {
            cursor = 0;
        }
        if cursor == 0 {
            let moved = api!(RedisModule_DefragAlloc(ctx, *place));
            if !moved.is_null() {
                *place = moved;
            }
        }
        // SAFETY: the Box, wherever it is now; nothing else runs meanwhile.
        let object = unsafe { &mut *place.cast::<SetObject>() };
        defrag_members(ctx, object, cursor)
    })
}

/// Moves the set's parts from `cursor` on, until all are done or the server wants its time back.
fn defrag_members(
    ctx: *mut raw::RedisModuleDefragCtx,
    object: &mut SetObject,
    mut cursor: c_ulong,
) -> c_int {
    while let Some(next) = object.change(|set| alloc::moving(ctx, || set.defrag_step(cursor))) {
        cursor = next;
        if api!(RedisModule_DefragShouldStop(ctx)) != 0
            && api!(RedisModule_DefragCursorSet(ctx, cursor)) == raw::REDISMODULE_OK as c_int
        {
            return io::MORE;
        }
    }
    io::DONE
}
