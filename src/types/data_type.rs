//! A native data type, and the callbacks through which the server uses it.

use std::ffi::{CStr, c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

use redis_module::{Context, raw};

use crate::server::aof::AofWriter;
use crate::server::api::api;
use crate::server::content::TypeHandle;
use crate::server::defrag::Defrag;
use crate::server::digest::Digest;
use crate::server::guard;
use crate::server::key::OpenKey;
use crate::server::rdb::{Loader, Rejected, Saver};
use crate::stats::Totals;

/// The version of the table of callbacks: Redis 7.0 knows it, and newer servers accept it.
const METHODS_VERSION: u64 = 4;

/// A native data type.
///
/// # Safety
/// No other type returns the same [`handle`](DataType::handle), and [`from_raw`](DataType::from_raw),
/// [`borrow`](DataType::borrow) and [`borrow_mut`](DataType::borrow_mut) are sound for each pointer that
/// [`into_raw`](DataType::into_raw) has returned.
pub unsafe trait DataType: Sized + 'static {
    /// The name in RDB files: nine characters.
    const NAME: &'static CStr;

    /// The encoding version of RDB bodies that [`save`](DataType::save) writes. Older ones stay loadable.
    const ENCODING: c_int;

    /// A shared borrow of the value of an open key.
    type Ref<'v>;

    /// An exclusive borrow of the value of a key that is open for writing.
    type Mut<'v>;

    /// The server's handle of the type.
    fn handle() -> &'static TypeHandle;

    /// The totals of all values, for `INFO`.
    fn totals() -> &'static Totals;

    /// The pointer that the server keeps. It owns the value.
    fn into_raw(self) -> NonNull<u8>;

    /// Converts the pointer back to the value, with its ownership.
    ///
    /// # Safety
    /// `value` comes from [`into_raw`](DataType::into_raw) and is not used afterwards, except by the result.
    unsafe fn from_raw(value: NonNull<u8>) -> Self;

    /// Borrows the value of an open key.
    ///
    /// # Safety
    /// `value` comes from [`into_raw`](DataType::into_raw), and nothing frees or changes it for the whole of `'v`.
    unsafe fn borrow<'v>(value: NonNull<u8>) -> Self::Ref<'v>;

    /// Borrows the value of `key` mutably.
    ///
    /// # Safety
    /// `key` is open for writing and holds `value`, which comes from [`into_raw`](DataType::into_raw). Nothing else
    /// reads, changes or frees it for the whole of `'v`.
    unsafe fn borrow_mut<'v>(value: NonNull<u8>, key: &'v mut OpenKey) -> Self::Mut<'v>;

    /// The number of elements: fields, rows or members.
    fn elements(&self) -> u64;

    /// The bytes of all allocations of the value, as the allocator rounds them.
    fn bytes(&self) -> usize;

    /// Reads a body of this or an older encoding version.
    fn load(loader: &Loader, encoding: c_int) -> Result<Self, Rejected>;

    /// Writes a body.
    fn save(&self, saver: &Saver);

    /// Writes the commands that restore the value.
    fn aof_rewrite(&self, aof: &AofWriter);

    /// Adds the value to a digest. Equal values have equal digests, independent of their layout in memory.
    fn digest(&self, digest: &Digest);

    /// A copy; None if an allocation fails.
    fn copy(&self) -> Option<Self>;

    /// The approximate number of allocations to free.
    fn free_effort(&self) -> usize;

    /// Moves the allocations at `cursor`, which is 0 for the first step. Returns the next cursor, or None at the end.
    fn defrag_step(self, defrag: &Defrag, cursor: u64) -> (Self, Option<u64>);
}

/// Registers a data type. The error is a message for the server's log.
pub fn register<T: DataType>(ctx: &Context) -> Result<(), String> {
    let mut methods = callbacks::<T>();
    let handle = api!(RedisModule_CreateDataType(
        ctx.get_raw(),
        T::NAME.as_ptr(),
        T::ENCODING,
        &mut methods
    ));
    // SAFETY: the result of the registration.
    unsafe { T::handle().set(handle) };
    if handle.is_null() {
        let name = T::NAME.to_string_lossy();
        Err(format!("countint: the server refused the data type {name}"))
    } else {
        Ok(())
    }
}

/// The table of callbacks of a type.
fn callbacks<T: DataType>() -> raw::RedisModuleTypeMethods {
    raw::RedisModuleTypeMethods {
        version: METHODS_VERSION,
        rdb_load: Some(rdb_load::<T>),
        rdb_save: Some(rdb_save::<T>),
        aof_rewrite: Some(aof_rewrite::<T>),
        mem_usage: Some(mem_usage::<T>),
        digest: Some(digest::<T>),
        free: Some(free::<T>),
        aux_load: None,
        aux_save: None,
        aux_save_triggers: 0,
        free_effort: Some(free_effort::<T>),
        unlink: Some(unlink),
        copy: Some(copy::<T>),
        defrag: Some(defrag::<T>),
        mem_usage2: None,
        free_effort2: None,
        unlink2: None,
        copy2: None,
        aux_save2: None,
    }
}

/// Counts a value and converts it to the pointer that the server keeps.
pub(super) fn into_server<T: DataType>(value: T) -> NonNull<u8> {
    T::totals().add(value.elements(), value.bytes());
    value.into_raw()
}

/// Takes a value back from the server and counts it as freed.
///
/// # Safety
/// `value` comes from [`into_server`], and the server no longer refers to it.
pub(super) unsafe fn from_server<T: DataType>(value: NonNull<u8>) -> T {
    // SAFETY: the caller's promise.
    let value = unsafe { T::from_raw(value) };
    T::totals().remove(value.elements(), value.bytes());
    value
}

/// The pointer that the server passed to a callback.
fn non_null(value: *const c_void) -> NonNull<u8> {
    NonNull::new(value.cast_mut().cast()).expect("the server passes a value")
}

/// The value that the server passed to a callback, still owned by the server.
///
/// # Safety
/// `value` is the argument of a callback of `T`. Nothing changes or frees the value while the result is used.
unsafe fn borrowed<T: DataType>(value: *const c_void) -> ManuallyDrop<T> {
    // SAFETY: the server passes what `into_server` returned; ManuallyDrop does not free it.
    ManuallyDrop::new(unsafe { T::from_raw(non_null(value)) })
}

unsafe extern "C" fn rdb_load<T: DataType>(
    rdb: *mut raw::RedisModuleIO,
    encoding: c_int,
) -> *mut c_void {
    // SAFETY: the argument of this callback.
    let loader = unsafe { Loader::new(rdb) };
    match guard::or_fallback(Err(Rejected), || T::load(&loader, encoding)) {
        Ok(value) => into_server(value).as_ptr().cast(),
        Err(Rejected) => {
            loader.reject(T::NAME);
            ptr::null_mut()
        }
    }
}

unsafe extern "C" fn rdb_save<T: DataType>(rdb: *mut raw::RedisModuleIO, value: *mut c_void) {
    guard::or_abort("saving", T::NAME, || {
        // SAFETY: the arguments of this callback.
        let (saver, value) = unsafe { (Saver::new(rdb), borrowed::<T>(value)) };
        value.save(&saver);
    });
}

unsafe extern "C" fn aof_rewrite<T: DataType>(
    aof: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    value: *mut c_void,
) {
    guard::or_abort("rewriting", T::NAME, || {
        // SAFETY: the arguments of this callback.
        let (aof, value) = unsafe { (AofWriter::new(aof, key), borrowed::<T>(value)) };
        value.aof_rewrite(&aof);
    });
}

unsafe extern "C" fn mem_usage<T: DataType>(value: *const c_void) -> usize {
    guard::or_fallback(0, || {
        // SAFETY: the argument of this callback.
        unsafe { borrowed::<T>(value) }.bytes()
    })
}

unsafe extern "C" fn digest<T: DataType>(digest: *mut raw::RedisModuleDigest, value: *mut c_void) {
    guard::or_fallback((), || {
        // SAFETY: the arguments of this callback.
        let (digest, value) = unsafe { (Digest::new(digest), borrowed::<T>(value)) };
        value.digest(&digest);
    });
}

unsafe extern "C" fn free<T: DataType>(value: *mut c_void) {
    guard::or_abort("freeing", T::NAME, || {
        // SAFETY: the server gives up the value.
        drop(unsafe { from_server::<T>(non_null(value)) });
    });
}

unsafe extern "C" fn free_effort<T: DataType>(
    _key: *mut raw::RedisModuleString,
    value: *const c_void,
) -> usize {
    guard::or_fallback(1, || {
        // SAFETY: the argument of this callback.
        unsafe { borrowed::<T>(value) }.free_effort().max(1)
    })
}

/// Removing a key needs no work before `free`: nothing else refers to its value.
unsafe extern "C" fn unlink(_key: *mut raw::RedisModuleString, _value: *const c_void) {}

unsafe extern "C" fn copy<T: DataType>(
    _from: *mut raw::RedisModuleString,
    _to: *mut raw::RedisModuleString,
    value: *const c_void,
) -> *mut c_void {
    guard::or_fallback(ptr::null_mut(), || {
        // SAFETY: the argument of this callback.
        let copy = unsafe { borrowed::<T>(value) }.copy();
        copy.map_or(ptr::null_mut(), |copy| into_server(copy).as_ptr().cast())
    })
}

unsafe extern "C" fn defrag<T: DataType>(
    ctx: *mut raw::RedisModuleDefragCtx,
    _key: *mut raw::RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    guard::or_abort("moving", T::NAME, || {
        // SAFETY: the argument of this callback.
        let defrag = unsafe { Defrag::new(ctx) };
        // SAFETY: the server passes the address of its pointer to the value, and nothing else uses it meanwhile.
        let place = unsafe { &mut *value };
        defrag.run(|cursor| {
            // SAFETY: the value that the server holds; the pointer after the step replaces it. A panic aborts.
            let value = unsafe { T::from_raw(non_null(*place)) };
            let (value, next) = value.defrag_step(&defrag, cursor);
            *place = value.into_raw().as_ptr().cast();
            next
        })
    })
}
