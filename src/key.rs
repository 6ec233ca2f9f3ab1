//! Opened keys, and what is done to them.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::ops::Deref;

use countint_core::countint::{CountInt, Fields};
use countint_core::idset::IdSet;
use redis_module::raw;

use crate::api::api;
use crate::call::Call;
use crate::error::Error;
use crate::found::{Found, HeldSet, HeldSetMut};
use crate::keyspace::Keyspace;
use crate::replicate::Replicate;
use crate::types::Native;
use crate::types::countint::{self, COUNTINT};
use crate::types::counttab::{self, COUNTTAB, TableObject};
use crate::types::idset::{self, IDSET};

/// A key opened for this call, and what it holds. Closed on drop, which the server requires before the call ends.
///
/// It borrows the call's [`Keyspace`]: nothing else is opened, and no code of other modules runs, until it is closed.
pub struct Key<'k> {
    raw: *mut raw::RedisModuleKey,
    ctx: *mut raw::RedisModuleCtx,
    found: Found,
    open: PhantomData<&'k mut ()>,
}

impl<'k> Key<'k> {
    /// Opens a key.
    ///
    /// # Safety
    /// `'k` is a borrow of the one [`Keyspace`] of the call that `ctx` and `name` belong to, and the mode is that of a
    /// [`KeyMut`] where the value is to be changed.
    #[inline]
    pub unsafe fn open(
        ctx: *mut raw::RedisModuleCtx,
        name: *mut raw::RedisModuleString,
        mode: u32,
    ) -> Key<'k> {
        let raw = api!(RedisModule_OpenKey(ctx, name, mode as c_int));
        Key {
            raw,
            ctx,
            found: Found::behind(raw),
            open: PhantomData,
        }
    }

    /// The server's handle of the key.
    pub(crate) fn raw(&self) -> *mut raw::RedisModuleKey {
        self.raw
    }

    /// The server's handle of the call.
    pub(crate) fn ctx(&self) -> *mut raw::RedisModuleCtx {
        self.ctx
    }

    /// What the key holds. The value behind it is that of the server, and may go when the key is closed.
    #[inline]
    pub fn found(&self) -> Found {
        self.found
    }

    /// The server's constant for what the key holds; a missing key is `REDISMODULE_KEYTYPE_EMPTY`.
    pub fn kind(&self) -> isize {
        self.found.kind()
    }

    /// Whether there is no such key.
    #[inline]
    pub fn is_missing(&self) -> bool {
        self.found.is_missing()
    }

    /// The counters that the key holds; None if it is missing.
    #[inline]
    pub fn fields(&self) -> Result<Option<&Fields>, Error> {
        // SAFETY: the value is there as long as the key is open; who could change it has `&mut` of the key.
        unsafe { self.found.fields() }
    }

    /// The set that the key holds; None if it is missing.
    #[inline]
    pub fn set(&self) -> Result<Option<HeldSet<'_>>, Error> {
        // SAFETY: as in `fields`.
        unsafe { self.found.set() }
    }

    /// The table that the key holds; None if it is missing.
    #[inline]
    pub fn table(&self) -> Result<Option<&TableObject>, Error> {
        // SAFETY: as in `fields`.
        unsafe { self.found.table() }
    }

    /// When the key expires, in milliseconds since 1970; None if it does not.
    pub fn expiry(&self) -> Option<i64> {
        let at = api!(RedisModule_GetAbsExpire(self.raw));
        (at != i64::from(raw::REDISMODULE_NO_EXPIRE)).then_some(at)
    }
}

impl Drop for Key<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.raw.is_null() {
            api!(RedisModule_CloseKey(self.raw));
        }
    }
}

/// A key opened for writing. What tells the server of a change takes the key, so that it is closed, and its value out of
/// reach, when code of other modules may run.
pub struct KeyMut<'k, 'a> {
    key: Key<'k>,
    keys: &'k mut Keyspace<'a>,
    at: usize,
}

impl<'k> Deref for KeyMut<'k, '_> {
    type Target = Key<'k>;

    #[inline]
    fn deref(&self) -> &Key<'k> {
        &self.key
    }
}

/// A change that is made, signalled and replicated, and whose key is closed. Its event is yet to be published.
#[must_use]
pub struct Changed<'k, 'a> {
    keys: &'k mut Keyspace<'a>,
    at: usize,
}

impl Changed<'_, '_> {
    /// Publishes the event of the command.
    #[inline]
    pub fn publish(&mut self, event: &std::ffi::CStr) {
        self.keys.publish(self.at, event);
    }

    /// Publishes `del`.
    pub fn publish_del(&mut self) {
        self.keys.publish_del(self.at);
    }

    /// Leaves that to a later [`Keyspace::publish`].
    pub fn publish_later(self) {}
}

impl<'k, 'a> KeyMut<'k, 'a> {
    /// A key that is open for writing, named by argument `at`.
    #[inline]
    pub(crate) fn new(key: Key<'k>, keys: &'k mut Keyspace<'a>, at: usize) -> Self {
        KeyMut { key, keys, at }
    }

    /// The call.
    #[inline]
    pub fn call(&self) -> &'a Call<'a> {
        self.keys.call()
    }

    /// The counters that the key holds, to be changed.
    #[inline]
    pub fn fields_mut(&mut self) -> Result<Option<&mut Fields>, Error> {
        // SAFETY: the value is there as long as the key is open, and `&mut self` is the only way to it.
        unsafe { self.key.found().fields_mut() }
    }

    /// The set that the key holds, to be changed.
    #[inline]
    pub fn set_mut(&mut self) -> Result<Option<HeldSetMut<'_>>, Error> {
        let Key { raw, found, .. } = &mut self.key;
        // SAFETY: as in `fields_mut`.
        unsafe { HeldSetMut::of(*raw, found) }
    }

    /// The table that the key holds, to be changed.
    #[inline]
    pub fn table_mut(&mut self) -> Result<Option<&mut TableObject>, Error> {
        // SAFETY: as in `fields_mut`.
        unsafe { self.key.found().table_mut() }
    }

    /// Puts other counters in the place of those that the key holds; its time to live stays.
    pub fn replace_counters(&mut self, counters: CountInt) {
        self.keys.call().begin();
        countint::created(&counters);
        let Key { raw, found, .. } = &mut self.key;
        let old = found.replace(*raw, &COUNTINT, counters.into_raw());
        // SAFETY: the server gave back the value that was stored and no longer refers to it.
        let old = unsafe { CountInt::from_raw(old) };
        countint::freed(&old);
    }

    /// Tells the server of a change in place: WATCHers and client caches, replicas and the append-only file.
    #[inline(always)]
    pub fn changed(self, replicate: Replicate) -> Changed<'k, 'a> {
        let KeyMut { key, keys, at } = self;
        let call = keys.call();
        call.signal(at);
        call.replicate(replicate);
        drop(key);
        Changed { keys, at }
    }

    /// Makes the key hold these counters, whatever it held before. Its time to live is cleared.
    pub fn store_counters(self, counters: CountInt, replicate: Replicate) -> Changed<'k, 'a> {
        self.adopt_counters(counters, None, replicate)
    }

    /// The same, with a time to live.
    pub fn adopt_counters(
        self,
        counters: CountInt,
        expiry: Option<i64>,
        replicate: Replicate,
    ) -> Changed<'k, 'a> {
        countint::created(&counters);
        self.store(&COUNTINT, counters.into_raw(), expiry, replicate)
    }

    /// Makes the key hold this set, whatever it held before. Its time to live is cleared.
    pub fn store_set(self, set: IdSet, replicate: Replicate) -> Changed<'k, 'a> {
        self.adopt_set(set, None, replicate)
    }

    /// The same, with a time to live.
    pub fn adopt_set(
        self,
        set: IdSet,
        expiry: Option<i64>,
        replicate: Replicate,
    ) -> Changed<'k, 'a> {
        idset::created(&set);
        self.store(&IDSET, set.into_raw().as_ptr(), expiry, replicate)
    }

    /// Makes the key hold this table, whatever it held before. Its time to live is cleared.
    pub fn store_table(self, table: Box<TableObject>, replicate: Replicate) -> Changed<'k, 'a> {
        counttab::created(&table);
        self.store(&COUNTTAB, Box::into_raw(table).cast(), None, replicate)
    }

    fn store(
        self,
        native: &Native,
        value: *mut u8,
        expiry: Option<i64>,
        replicate: Replicate,
    ) -> Changed<'k, 'a> {
        let KeyMut { key, keys, at } = self;
        let call = keys.call();
        call.begin();
        // First, since the server publishes `new` for the key before it returns.
        call.replicate(replicate);
        let status = api!(RedisModule_ModuleTypeSetValue(
            key.raw,
            native.raw(),
            value.cast()
        ));
        assert_eq!(
            status,
            raw::REDISMODULE_OK as c_int,
            "the key is open for writing"
        );
        if let Some(expiry) = expiry {
            api!(RedisModule_SetAbsExpire(key.raw, expiry));
        }
        call.signal(at);
        drop(key);
        Changed { keys, at }
    }

    /// Removes the key.
    pub fn delete(self, replicate: Replicate) -> Changed<'k, 'a> {
        let KeyMut { key, keys, at } = self;
        let call = keys.call();
        call.begin();
        call.replicate(replicate);
        api!(RedisModule_DeleteKey(key.raw));
        call.signal(at);
        drop(key);
        Changed { keys, at }
    }
}
