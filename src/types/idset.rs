//! `RoaringBM`: an exact set of 64-bit ids; see `countint_core::idset`.

use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

use countint_core::idset::{BlobLoader, IdSet};
use redis_module::raw;

use super::io::{self, Loader, Rejected};
use super::{Native, no_methods};
use crate::{alloc, guard, stats};

/// The encoding of RDB bodies that we write: the cardinality, then blobs, the last one empty. Older ones stay
/// loadable for ever.
const ENCODING: c_int = 1;

/// The type.
pub static IDSET: Native = Native::new(c"RoaringBM", ENCODING);

// The value behind a key is the set's own pointer, and the set is never empty there, except on its way out.

/// The bytes that a set takes, as the allocator rounds them: of its one allocation, or what has been noted of them all.
pub fn bytes(set: &IdSet) -> usize {
    match set.allocation() {
        // SAFETY: it is a live allocation with an alignment of 8.
        Some(place) => unsafe { alloc::allocated_size(place.as_ptr()) },
        None => set.accounted_bytes(),
    }
}

/// Takes the set that `make` builds, and notes what it weighs.
pub fn weighed<E>(make: impl FnOnce() -> Result<IdSet, E>) -> Result<IdSet, E> {
    let (set, heap) = alloc::measured(make);
    let mut set = set?;
    set.set_accounted_bytes(heap.max(0) as usize);
    Ok(set)
}

/// Changes a set that the server holds, keeping count of its bytes and of the totals.
pub fn change<R>(set: &mut IdSet, change: impl FnOnce(&mut IdSet) -> R) -> R {
    change_from(bytes(set), set, change)
}

/// Takes the members of another set into one that the server holds, and tells how many were new.
pub fn absorb(set: &mut IdSet, other: IdSet) -> u64 {
    // What it weighs is this set's from now on; `change_from` takes off what the union frees.
    let weight = bytes(&other);
    stats::IDSET.resize(0, weight as i64);
    change_from(bytes(set) + weight, set, |set| set.union_with(other))
}

/// The same for a set that weighs `before`.
fn change_from<R>(before: usize, set: &mut IdSet, change: impl FnOnce(&mut IdSet) -> R) -> R {
    let members = set.len();
    let (result, grown) = alloc::measured(|| change(set));
    set.set_accounted_bytes(before.saturating_add_signed(grown));
    stats::IDSET.resize(set.len() as i64 - members as i64, grown as i64);
    result
}

/// A value has come into the server's hands.
pub fn created(set: &IdSet) {
    stats::IDSET.add(set.len(), bytes(set));
}

/// A set that the server holds, without taking it over.
///
/// # Safety
/// `value` is a value of this type that the server holds, and as long as the result is used nothing else changes it.
pub unsafe fn borrowed(value: NonNull<u8>) -> ManuallyDrop<IdSet> {
    // SAFETY: the server keeps what `IdSet::into_raw` gave; ManuallyDrop leaves it to the server.
    ManuallyDrop::new(unsafe { IdSet::from_raw(value) })
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

/// The value that a callback got.
fn value_of(value: *const c_void) -> ManuallyDrop<IdSet> {
    let value = NonNull::new(value.cast_mut().cast()).expect("the server has a value");
    // SAFETY: the server passes what it holds, and changes nothing while a callback reads it.
    unsafe { borrowed(value) }
}

fn into_value(set: IdSet) -> *mut c_void {
    created(&set);
    set.into_raw().as_ptr().cast()
}

unsafe extern "C" fn rdb_load(rdb: *mut raw::RedisModuleIO, encoding: c_int) -> *mut c_void {
    let loader = Loader::new(rdb);
    match guard::harmless(Err(Rejected), || weighed(|| load(&loader, encoding))) {
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
    loader.blobs(|blob| blobs.push(blob))?;
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
        let set = value_of(value);
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
        value_of(value).export_chunks(io::CHUNK, &mut |chunk| {
            io::emit(aof, c"RBM.IMPORT", key, chunk);
            true
        });
    });
}

unsafe extern "C" fn mem_usage(value: *const c_void) -> usize {
    guard::harmless(0, || bytes(&value_of(value)))
}

unsafe extern "C" fn digest(digest: *mut raw::RedisModuleDigest, value: *mut c_void) {
    guard::harmless((), || {
        for member in value_of(value).iter() {
            io::digest_element(digest, &member.to_le_bytes());
        }
    });
}

unsafe extern "C" fn free(value: *mut c_void) {
    guard::vital("freeing a set", || {
        // The server gives the value up.
        let set = ManuallyDrop::into_inner(value_of(value));
        stats::IDSET.remove(set.len(), bytes(&set));
    });
}

unsafe extern "C" fn free_effort(_key: *mut raw::RedisModuleString, value: *const c_void) -> usize {
    guard::harmless(1, || value_of(value).free_effort().max(1))
}

unsafe extern "C" fn copy(
    _from: *mut raw::RedisModuleString,
    _to: *mut raw::RedisModuleString,
    value: *const c_void,
) -> *mut c_void {
    guard::harmless(ptr::null_mut(), || {
        match weighed(|| Ok::<_, Rejected>(IdSet::clone(&value_of(value)))) {
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
        // SAFETY: the server passes the place where it keeps the value; nothing else runs meanwhile.
        let place = unsafe { &mut *value };
        let mut set = value_of(*place);
        let answer = io::defrag_parts(ctx, io::defrag_cursor(ctx), |at| {
            change(&mut set, |set| alloc::moving(ctx, || set.defrag_step(at)))
        });
        *place = set.as_raw().as_ptr().cast();
        answer
    })
}
