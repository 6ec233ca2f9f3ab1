//! Open keys: reading and changing their values.

use std::ffi::{CStr, c_int};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};

use redis_module::raw;

use super::api::api;
use super::call::Call;
use super::content::{KeyContent, KeyType, TypeHandle};
use super::keyspace::Keyspace;
use super::replicate::Replicate;

/// The server's handle of an open key, and the key's content. Closed on drop.
pub struct OpenKey {
    raw: *mut raw::RedisModuleKey,
    content: KeyContent,
}

impl OpenKey {
    /// Opens a key.
    ///
    /// # Safety
    /// `ctx` and `name` belong to the current call, and the result is dropped before the call returns.
    #[inline]
    unsafe fn open(
        ctx: *mut raw::RedisModuleCtx,
        name: *mut raw::RedisModuleString,
        mode: u32,
    ) -> OpenKey {
        let raw = api!(RedisModule_OpenKey(ctx, name, mode as c_int));
        OpenKey {
            raw,
            // SAFETY: the server has just opened the key.
            content: unsafe { KeyContent::of(raw) },
        }
    }

    /// The content.
    #[inline]
    pub fn content(&self) -> KeyContent {
        self.content
    }

    /// Replaces the value, keeps the TTL, and returns the old value, which the server no longer refers to.
    ///
    /// # Safety
    /// The key is open for writing and holds a value of the type `handle`. `value` is a value of that type, and the
    /// server owns it afterwards.
    pub unsafe fn replace_value(&mut self, handle: &TypeHandle, value: NonNull<u8>) -> *mut u8 {
        let mut old = ptr::null_mut();
        let status = api!(RedisModule_ModuleTypeReplaceValue(
            self.raw,
            handle.get(),
            value.as_ptr().cast(),
            &mut old
        ));
        assert_eq!(
            status,
            raw::REDISMODULE_OK as c_int,
            "the key holds a value of this type"
        );
        self.content = KeyContent::Module {
            handle: handle.get(),
            value: value.as_ptr(),
        };
        old.cast()
    }
}

impl Drop for OpenKey {
    #[inline]
    fn drop(&mut self) {
        if !self.raw.is_null() {
            api!(RedisModule_CloseKey(self.raw));
        }
    }
}

/// A key opened for reading.
///
/// It borrows the call's [`Keyspace`]: no other key is opened, and no hook runs, until it is dropped.
pub struct Key<'k> {
    open: OpenKey,
    ctx: *mut raw::RedisModuleCtx,
    keyspace: PhantomData<&'k mut ()>,
}

impl Key<'_> {
    /// The server's handle of the key.
    pub(super) fn raw(&self) -> *mut raw::RedisModuleKey {
        self.open.raw
    }

    /// The server's handle of the call.
    pub(super) fn ctx(&self) -> *mut raw::RedisModuleCtx {
        self.ctx
    }

    /// The content. The server owns the value and may free it once the key is closed.
    #[inline]
    pub fn content(&self) -> KeyContent {
        self.open.content
    }

    /// The type of the key.
    pub fn key_type(&self) -> KeyType {
        self.content().key_type()
    }

    /// Whether the key does not exist.
    #[inline]
    pub fn is_missing(&self) -> bool {
        self.content().is_missing()
    }

    /// The time at which the key expires, in Unix milliseconds; None if it has no TTL.
    pub fn expiry(&self) -> Option<i64> {
        let at = api!(RedisModule_GetAbsExpire(self.raw()));
        (at != i64::from(raw::REDISMODULE_NO_EXPIRE)).then_some(at)
    }
}

/// A key opened for writing. The methods that report a change to the server consume it, so the key is closed, and its
/// value out of reach, before hooks run.
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

/// A change that has been made, signalled and replicated. The key is closed; its event is not published yet.
#[must_use]
pub struct Changed<'k, 'a> {
    keys: &'k mut Keyspace<'a>,
    at: usize,
}

impl Changed<'_, '_> {
    /// Publishes the event of the command.
    #[inline]
    pub fn publish(&mut self, event: &CStr) {
        self.keys.publish(self.at, event);
    }

    /// Publishes `del`.
    pub fn publish_del(&mut self) {
        self.keys.publish_del(self.at);
    }

    /// Publishes nothing; the caller calls [`Keyspace::publish`] later.
    pub fn publish_later(self) {}
}

impl<'a> Keyspace<'a> {
    /// Opens the key named by argument `i` for reading.
    #[inline]
    pub fn read(&mut self, i: usize) -> Key<'_> {
        self.open(i, raw::REDISMODULE_READ)
    }

    /// Opens the key named by argument `i` for writing. Opening signals and replicates nothing.
    #[inline]
    pub fn write(&mut self, i: usize) -> KeyMut<'_, 'a> {
        const MODE: u32 = raw::REDISMODULE_READ | raw::REDISMODULE_WRITE;
        let (ctx, name) = (self.ctx(), self.call().handle(i));
        // SAFETY: the call's own context and argument; `KeyMut` borrows the call's `Keyspace`.
        let mut open = unsafe { OpenKey::open(ctx, name, MODE) };
        if open.content.is_missing() {
            // The key may have expired just now, and a hook of `expired` may have created it again.
            drop(open);
            // SAFETY: as above.
            open = unsafe { OpenKey::open(ctx, name, MODE) };
        }
        let key = Key {
            open,
            ctx,
            keyspace: PhantomData,
        };
        KeyMut {
            key,
            keys: self,
            at: i,
        }
    }

    /// Opens the key named by argument `i` in `mode`, to read it.
    #[inline]
    pub(super) fn open(&mut self, i: usize, mode: u32) -> Key<'_> {
        let (ctx, name) = (self.ctx(), self.call().handle(i));
        Key {
            // SAFETY: the call's own context and argument; the key borrows the call's `Keyspace`.
            open: unsafe { OpenKey::open(ctx, name, mode) },
            ctx,
            keyspace: PhantomData,
        }
    }
}

impl<'k, 'a> KeyMut<'k, 'a> {
    /// The call.
    #[inline]
    pub fn call(&self) -> &'a Call<'a> {
        self.keys.call()
    }

    /// The open key, mutable.
    #[inline]
    pub fn open_key_mut(&mut self) -> &mut OpenKey {
        &mut self.key.open
    }

    /// Signals and replicates a change of the value, and closes the key.
    #[inline(always)]
    pub fn changed(self, replicate: Replicate) -> Changed<'k, 'a> {
        let KeyMut { key, keys, at } = self;
        let call = keys.call();
        call.signal_modified(at);
        call.replicate(replicate);
        drop(key);
        Changed { keys, at }
    }

    /// Stores `value` at the key, replacing any value, with the TTL `expiry` (None clears it).
    ///
    /// # Safety
    /// `value` is a value of the type `handle`, and the server owns it afterwards.
    pub unsafe fn set_value(
        self,
        handle: &TypeHandle,
        value: NonNull<u8>,
        expiry: Option<i64>,
        replicate: Replicate,
    ) -> Changed<'k, 'a> {
        let KeyMut { key, keys, at } = self;
        let call = keys.call();
        call.begin_effects();
        // Replicated first, because the server publishes `new` while it sets the value.
        call.replicate(replicate);
        let status = api!(RedisModule_ModuleTypeSetValue(
            key.raw(),
            handle.get(),
            value.as_ptr().cast()
        ));
        assert_eq!(
            status,
            raw::REDISMODULE_OK as c_int,
            "the key is open for writing"
        );
        if let Some(expiry) = expiry {
            api!(RedisModule_SetAbsExpire(key.raw(), expiry));
        }
        call.signal_modified(at);
        drop(key);
        Changed { keys, at }
    }

    /// Deletes the key.
    pub fn delete(self, replicate: Replicate) -> Changed<'k, 'a> {
        let KeyMut { key, keys, at } = self;
        let call = keys.call();
        call.begin_effects();
        call.replicate(replicate);
        api!(RedisModule_DeleteKey(key.raw()));
        call.signal_modified(at);
        drop(key);
        Changed { keys, at }
    }
}
