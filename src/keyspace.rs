//! The keys of a call: opening them, reading several at once, and publishing what has changed.
//!
//! Each of these can run code of other modules: a key that is looked for and missing publishes `keymiss`, one that has
//! just expired `expired`, a new one `new`, and a change its own event. Another module's hook may then delete, overwrite
//! or resize any key. So whatever can run such code takes `&mut Keyspace`, of which a call has one, and an open key or a
//! value of one borrows it: the compiler refuses to publish while a value is in use, and to open a second key while a
//! first one is open.

use std::ffi::{CStr, c_int};
use std::marker::PhantomData;

use countint_core::countint::Fields;
use redis_module::raw;

use crate::api::api;
use crate::call::Call;
use crate::error::Error;
use crate::found::{Found, HeldSet};
use crate::key::{Key, KeyMut};
use crate::scratch::{self, Scratch};
use crate::types::counttab::TableObject;

/// How keys are opened to look at them again. No `keymiss` is published: on Redis 7.0 because writers publish none, on
/// newer servers also because of the flags, which 7.0 ignores. Nor does it count as another access.
const QUIETLY: u32 = raw::REDISMODULE_WRITE
    | raw::REDISMODULE_OPEN_KEY_NOTOUCH
    | raw::REDISMODULE_OPEN_KEY_NONOTIFY
    | raw::REDISMODULE_OPEN_KEY_NOSTATS
    | raw::REDISMODULE_OPEN_KEY_NOEXPIRE;

/// The keys of one call.
pub struct Keyspace<'a> {
    call: &'a Call<'a>,
}

impl<'a> Keyspace<'a> {
    /// The keys of `call`.
    ///
    /// # Safety
    /// It is the only one of the call.
    pub unsafe fn new(call: &'a Call<'a>) -> Self {
        Keyspace { call }
    }

    /// The call.
    #[inline]
    pub fn call(&self) -> &'a Call<'a> {
        self.call
    }

    /// The server's handle of the call, for what may run code of other modules.
    pub fn ctx(&mut self) -> *mut raw::RedisModuleCtx {
        self.call.ctx()
    }

    /// Opens the key named by argument `i` for reading.
    #[inline]
    pub fn read(&mut self, i: usize) -> Key<'_> {
        self.open(i, raw::REDISMODULE_READ)
    }

    /// Opens the key named by argument `i` for writing. Nothing is signalled or replicated by that alone.
    #[inline]
    pub fn write(&mut self, i: usize) -> KeyMut<'_, 'a> {
        const MODE: u32 = raw::REDISMODULE_READ | raw::REDISMODULE_WRITE;
        let (ctx, name) = (self.call.ctx(), self.call.name(i));
        // SAFETY: the call's own context and argument; `KeyMut` holds the borrow of its only `Keyspace`.
        let mut key = unsafe { Key::open(ctx, name, MODE) };
        if key.is_missing() {
            // It may have expired just now, and a hook of `expired` may have created it again.
            drop(key);
            // SAFETY: as above.
            key = unsafe { Key::open(ctx, name, MODE) };
        }
        KeyMut::new(key, self, i)
    }

    #[inline]
    fn open(&mut self, i: usize, mode: u32) -> Key<'_> {
        // SAFETY: the call's own context and argument; the key borrows the call's only `Keyspace`.
        unsafe { Key::open(self.call.ctx(), self.call.name(i), mode) }
    }

    /// Publishes the event of a change of the key at argument `i`.
    #[inline]
    pub fn publish(&mut self, i: usize, event: &CStr) {
        self.notify(i, raw::REDISMODULE_NOTIFY_MODULE, event);
    }

    /// Publishes `del` for the key at argument `i`.
    pub fn publish_del(&mut self, i: usize) {
        self.notify(i, raw::REDISMODULE_NOTIFY_GENERIC, c"del");
    }

    fn notify(&mut self, i: usize, class: c_int, event: &CStr) {
        api!(RedisModule_NotifyKeyspaceEvent(
            self.call.ctx(),
            class,
            event.as_ptr(),
            self.call.name(i)
        ));
    }

    /// What the keys named by these arguments hold, all at the same time.
    ///
    /// Every key is touched first, so that hooks of `keymiss` and `expired` have run. Where any may have, the keys are
    /// looked at again, in a way that publishes nothing. So all values are there until the result is dropped.
    pub fn values(&mut self, keys: impl Iterator<Item = usize> + Clone) -> Values<'_> {
        let mut found = scratch::found();
        let mut missed = false;
        for i in keys.clone() {
            let value = self.open(i, raw::REDISMODULE_READ).found();
            missed |= value.is_missing();
            found.push(value);
        }
        if missed {
            self.look_again(keys, &mut found);
        }
        Values {
            found,
            open: PhantomData,
        }
    }

    /// What the keys named by these arguments hold now, where [`Keyspace::values`] has touched them already.
    pub fn values_now(&mut self, keys: impl Iterator<Item = usize> + Clone) -> Values<'_> {
        let mut found = scratch::found();
        found.extend(keys.clone().map(|_| Found::UNKNOWN));
        self.look_again(keys, &mut found);
        Values {
            found,
            open: PhantomData,
        }
    }

    /// Looks quietly at keys of which `found` is what was seen of them before.
    ///
    /// One thing is not quiet: on Redis 7.0, a key that a hook has left already expired (`SET key value PXAT 1`) is
    /// removed, and published, by the one look that finds it gone. So a value counts only if no key after it was found
    /// gone. Each round leaves out the keys that are gone, so it ends.
    fn look_again(&mut self, keys: impl Iterator<Item = usize> + Clone, found: &mut [Found]) {
        for (i, value) in keys.clone().zip(found.iter_mut()) {
            if value.is_missing() {
                *value = self.open(i, QUIETLY).found();
            }
        }
        let mut gone = true;
        while gone {
            gone = false;
            for (i, value) in keys.clone().zip(found.iter_mut()) {
                if !value.is_missing() {
                    *value = self.open(i, QUIETLY).found();
                    gone |= value.is_missing();
                }
            }
        }
    }
}

/// What several keys hold, in the order in which they were asked for.
pub struct Values<'k> {
    found: Scratch<Found>,
    open: PhantomData<&'k mut ()>,
}

#[allow(clippy::len_without_is_empty, reason = "a command has a key")]
impl Values<'_> {
    /// The counters that the `n`th key holds; None if it is missing.
    #[inline]
    pub fn fields(&self, n: usize) -> Result<Option<&Fields>, Error> {
        // SAFETY: nothing else runs as long as `Values` borrows the call's `Keyspace`, so the value stays where it is.
        unsafe { self.found[n].fields() }
    }

    /// The set that the `n`th key holds; None if it is missing.
    pub fn set(&self, n: usize) -> Result<Option<HeldSet<'_>>, Error> {
        // SAFETY: as in `fields`.
        unsafe { self.found[n].set() }
    }

    /// The table that the `n`th key holds; None if it is missing.
    pub fn table(&self, n: usize) -> Result<Option<&TableObject>, Error> {
        // SAFETY: as in `fields`.
        unsafe { self.found[n].table() }
    }

    /// The server's constant for what the `n`th key holds.
    pub fn kind(&self, n: usize) -> isize {
        self.found[n].kind()
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.found.len()
    }
}
