//! What a key holds: which type, and the value behind it.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;

use countint_core::countint::{CountInt, Fields};
use countint_core::idset::IdSet;
use redis_module::raw;

use crate::api::api;
use crate::error::Error;
use crate::types::Native;
use crate::types::countint::COUNTINT;
use crate::types::counttab::{COUNTTAB, TableObject};
use crate::types::idset::{self, IDSET};

/// What a key was found to hold.
#[derive(Clone, Copy)]
pub enum Found {
    /// There is no such key.
    Missing,
    /// A value of a module's type.
    Native {
        /// The type.
        kind: *mut raw::RedisModuleType,
        /// What the module has stored.
        value: *mut u8,
    },
    /// One of the server's own types, as the server's constant says.
    Other(isize),
}

impl Found {
    /// Of a key that is yet to be looked at.
    pub const UNKNOWN: Found = Found::Other(raw::REDISMODULE_KEYTYPE_EMPTY);

    /// What is behind an open key, or behind the null pointer that a missing one opened for reading is.
    #[inline]
    pub fn behind(key: *mut raw::RedisModuleKey) -> Found {
        let kind = api!(RedisModule_ModuleTypeGetType(key));
        if !kind.is_null() {
            let value = api!(RedisModule_ModuleTypeGetValue(key)).cast();
            return Found::Native { kind, value };
        }
        match api!(RedisModule_KeyType(key)) as isize {
            raw::REDISMODULE_KEYTYPE_EMPTY => Found::Missing,
            kind => Found::Other(kind),
        }
    }

    /// Whether there is no such key.
    #[inline]
    pub fn is_missing(self) -> bool {
        matches!(self, Found::Missing)
    }

    /// The server's constant for the type; a missing key is `REDISMODULE_KEYTYPE_EMPTY`.
    pub fn kind(self) -> isize {
        match self {
            Found::Missing => raw::REDISMODULE_KEYTYPE_EMPTY,
            Found::Native { .. } => raw::REDISMODULE_KEYTYPE_MODULE,
            Found::Other(kind) => kind,
        }
    }

    /// The value, if it is of this type; None if the key is missing.
    #[inline]
    fn value(self, native: &Native) -> Result<Option<*mut u8>, Error> {
        match self {
            Found::Native { kind, value } if kind == native.raw() => Ok(Some(value)),
            Found::Missing => Ok(None),
            Found::Native { .. } | Found::Other(_) => Err(Error::WrongType),
        }
    }

    /// The counters; None if the key is missing.
    ///
    /// # Safety
    /// The key holds this value, and nothing changes it, for the whole of `'v`.
    #[inline]
    pub unsafe fn fields<'v>(self) -> Result<Option<&'v Fields>, Error> {
        // SAFETY: a value of our type is what `CountInt::into_raw` gave; the rest is the caller's promise.
        Ok(self
            .value(&COUNTINT)?
            .map(|value| unsafe { CountInt::borrow_raw(value) }))
    }

    /// The counters, to be changed; None if the key is missing.
    ///
    /// # Safety
    /// The key holds this value, and nothing else reads or changes it, for the whole of `'v`.
    #[inline]
    pub unsafe fn fields_mut<'v>(self) -> Result<Option<&'v mut Fields>, Error> {
        // SAFETY: as in `fields`.
        Ok(self
            .value(&COUNTINT)?
            .map(|value| unsafe { CountInt::borrow_raw_mut(value) }))
    }

    /// The set; None if the key is missing.
    ///
    /// # Safety
    /// As for [`Found::fields`].
    #[inline]
    pub unsafe fn set<'v>(self) -> Result<Option<HeldSet<'v>>, Error> {
        let value = self.value(&IDSET)?.and_then(NonNull::new);
        Ok(value.map(|value| HeldSet {
            // SAFETY: a value of our type; the rest is the caller's promise.
            set: unsafe { idset::borrowed(value) },
            key: PhantomData,
        }))
    }

    /// The table; None if the key is missing.
    ///
    /// # Safety
    /// As for [`Found::fields`].
    #[inline]
    pub unsafe fn table<'v>(self) -> Result<Option<&'v TableObject>, Error> {
        // SAFETY: a value of our type is what `Box::into_raw` gave; the rest is the caller's promise.
        Ok(self
            .value(&COUNTTAB)?
            .map(|value| unsafe { &*value.cast::<TableObject>() }))
    }

    /// The table, to be changed; None if the key is missing.
    ///
    /// # Safety
    /// As for [`Found::fields_mut`].
    #[inline]
    pub unsafe fn table_mut<'v>(self) -> Result<Option<&'v mut TableObject>, Error> {
        // SAFETY: as in `table`.
        Ok(self
            .value(&COUNTTAB)?
            .map(|value| unsafe { &mut *value.cast::<TableObject>() }))
    }

    /// Puts another value in the place of the one that the open key holds, which is of the same type and is given back.
    pub fn replace(
        &mut self,
        key: *mut raw::RedisModuleKey,
        native: &Native,
        value: *mut u8,
    ) -> *mut u8 {
        let mut old = std::ptr::null_mut();
        let status = api!(RedisModule_ModuleTypeReplaceValue(
            key,
            native.raw(),
            value.cast(),
            &mut old
        ));
        assert_eq!(
            status,
            raw::REDISMODULE_OK as c_int,
            "the key holds such a value"
        );
        let kind = native.raw();
        *self = Found::Native { kind, value };
        old.cast()
    }
}

/// The set that an open key holds.
pub struct HeldSet<'k> {
    set: ManuallyDrop<IdSet>,
    key: PhantomData<&'k ()>,
}

impl Deref for HeldSet<'_> {
    type Target = IdSet;

    #[inline]
    fn deref(&self) -> &IdSet {
        &self.set
    }
}

/// The set that an open key holds, to be changed.
pub struct HeldSetMut<'k> {
    set: ManuallyDrop<IdSet>,
    key: *mut raw::RedisModuleKey,
    /// What the key is noted to hold.
    found: &'k mut Found,
}

impl<'k> HeldSetMut<'k> {
    /// The set at an open key; None if the key is missing.
    ///
    /// # Safety
    /// The key is open for writing, `found` is what it holds, and nothing else reads or changes that for the whole of
    /// `'k`.
    #[inline]
    pub unsafe fn of(
        key: *mut raw::RedisModuleKey,
        found: &'k mut Found,
    ) -> Result<Option<HeldSetMut<'k>>, Error> {
        let value = found.value(&IDSET)?.and_then(NonNull::new);
        Ok(value.map(|value| HeldSetMut {
            // SAFETY: a value of our type; the rest is the caller's promise.
            set: unsafe { idset::borrowed(value) },
            key,
            found,
        }))
    }

    /// The set.
    pub fn get(&self) -> &IdSet {
        &self.set
    }

    /// Changes the set, keeping count of its bytes and of the totals. The call must have begun: a panic in between leaves
    /// a key whose value may be gone.
    #[inline]
    pub fn change<R>(&mut self, change: impl FnOnce(&mut IdSet) -> R) -> R {
        self.follow(|set| idset::change(set, change))
    }

    /// Takes in the members of another set, and tells how many were new. The call must have begun.
    pub fn absorb(&mut self, other: IdSet) -> u64 {
        self.follow(|set| idset::absorb(set, other))
    }

    /// Tells the server where the set is after `change`, if that has moved it.
    #[inline]
    fn follow<R>(&mut self, change: impl FnOnce(&mut IdSet) -> R) -> R {
        let before = self.set.as_raw();
        let result = change(&mut self.set);
        let after = self.set.as_raw();
        if after != before {
            self.found.replace(self.key, &IDSET, after.as_ptr());
        }
        result
    }
}
