//! Opened keys: what type they hold, and the value behind them.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;

use countint_core::countint::{CountInt, Fields};
use countint_core::idset::IdSet;
use redis_module::raw;

use crate::api::api;
use crate::call::Call;
use crate::error::Error;
use crate::types::Native;
use crate::types::countint::{self, COUNTINT};
use crate::types::counttab::{self, COUNTTAB, TableObject};
use crate::types::idset::{self, IDSET};

/// A key opened for this call. Closed on drop, which the server requires before the call ends.
pub struct Key<'c> {
    raw: *mut raw::RedisModuleKey,
    call: &'c Call<'c>,
}

impl Call<'_> {
    /// Opens the key named by argument `i` for reading.
    #[inline]
    pub fn read(&self, i: usize) -> Key<'_> {
        self.open(i, raw::REDISMODULE_READ)
    }

    /// Opens the key named by argument `i` for writing. Nothing is signalled or replicated by that alone.
    #[inline]
    pub fn write(&self, i: usize) -> Key<'_> {
        self.open(i, raw::REDISMODULE_READ | raw::REDISMODULE_WRITE)
    }

    #[inline]
    fn open(&self, i: usize, mode: u32) -> Key<'_> {
        Key {
            raw: api!(RedisModule_OpenKey(self.ctx(), self.name(i), mode as c_int)),
            call: self,
        }
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

/// Puts another value in the place of the one that the key holds, which is of the same type and is given back.
fn replace_value(key: *mut raw::RedisModuleKey, kind: &Native, value: *mut u8) -> *mut u8 {
    let mut old = std::ptr::null_mut();
    let status = api!(RedisModule_ModuleTypeReplaceValue(
        key,
        kind.raw(),
        value.cast(),
        &mut old
    ));
    assert_eq!(
        status,
        raw::REDISMODULE_OK as c_int,
        "the key holds such a value"
    );
    old.cast()
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
    open: PhantomData<&'k mut ()>,
}

impl HeldSetMut<'_> {
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
            replace_value(self.key, &IDSET, after.as_ptr());
        }
        result
    }
}

impl Key<'_> {
    /// The server's constant for what the key holds; a missing key is `REDISMODULE_KEYTYPE_EMPTY`.
    pub fn kind(&self) -> isize {
        api!(RedisModule_KeyType(self.raw)) as isize
    }

    /// Whether there is no such key.
    pub fn is_missing(&self) -> bool {
        self.kind() == raw::REDISMODULE_KEYTYPE_EMPTY
    }

    /// The value, if the key holds type `kind`; None if it is missing.
    #[inline]
    fn value(&self, kind: &Native) -> Result<Option<*mut u8>, Error> {
        if api!(RedisModule_ModuleTypeGetType(self.raw)) == kind.raw() {
            return Ok(Some(api!(RedisModule_ModuleTypeGetValue(self.raw)).cast()));
        }
        if self.is_missing() {
            Ok(None)
        } else {
            Err(Error::WrongType)
        }
    }

    /// The counters that the key holds; None if it is missing.
    #[inline]
    pub fn fields(&self) -> Result<Option<&Fields>, Error> {
        // SAFETY: a value of our type is what `CountInt::into_raw` gave, alive as long as the key is open.
        Ok(self
            .value(&COUNTINT)?
            .map(|value| unsafe { CountInt::borrow_raw(value) }))
    }

    /// The counters that the key holds, to be changed.
    #[inline]
    pub fn fields_mut(&mut self) -> Result<Option<&mut Fields>, Error> {
        // SAFETY: as in `fields`; commands run one at a time, and `&mut self` is the only way to this value here.
        Ok(self
            .value(&COUNTINT)?
            .map(|value| unsafe { CountInt::borrow_raw_mut(value) }))
    }

    /// Makes the key hold these counters, whatever it held before. Its time to live is cleared.
    pub fn store_counters(&mut self, counters: CountInt) {
        self.call.begin();
        countint::created(&counters);
        self.store(&COUNTINT, counters.into_raw());
    }

    /// Puts other counters in the place of those that the key holds; its time to live stays.
    pub fn replace_counters(&mut self, counters: CountInt) {
        self.call.begin();
        countint::created(&counters);
        let old = replace_value(self.raw, &COUNTINT, counters.into_raw());
        // SAFETY: the server gave back the value that was stored and no longer refers to it.
        let old = unsafe { CountInt::from_raw(old) };
        countint::freed(&old);
    }

    /// The set that the key holds; None if it is missing.
    #[inline]
    pub fn set(&self) -> Result<Option<HeldSet<'_>>, Error> {
        let value = self.value(&IDSET)?.and_then(NonNull::new);
        Ok(value.map(|value| HeldSet {
            // SAFETY: a value of our type, alive as long as the key is open; who could change it has `&mut` of the key.
            set: unsafe { idset::borrowed(value) },
            key: PhantomData,
        }))
    }

    /// The set that the key holds, to be changed.
    #[inline]
    pub fn set_mut(&mut self) -> Result<Option<HeldSetMut<'_>>, Error> {
        let value = self.value(&IDSET)?.and_then(NonNull::new);
        Ok(value.map(|value| HeldSetMut {
            // SAFETY: as in `set`; commands run one at a time, and `&mut self` is the only way to this value here.
            set: unsafe { idset::borrowed(value) },
            key: self.raw,
            open: PhantomData,
        }))
    }

    /// Makes the key hold this set, whatever it held before. Its time to live is cleared.
    pub fn store_set(&mut self, set: IdSet) {
        self.call.begin();
        idset::created(&set);
        self.store(&IDSET, set.into_raw().as_ptr());
    }

    /// The table that the key holds; None if it is missing.
    #[inline]
    pub fn table(&self) -> Result<Option<&TableObject>, Error> {
        // SAFETY: a value of our type is what `Box::into_raw` gave, alive as long as the key is open.
        Ok(self
            .value(&COUNTTAB)?
            .map(|value| unsafe { &*value.cast::<TableObject>() }))
    }

    /// The table that the key holds, to be changed.
    #[inline]
    pub fn table_mut(&mut self) -> Result<Option<&mut TableObject>, Error> {
        // SAFETY: as in `table`; commands run one at a time, and `&mut self` is the only way to this value here.
        Ok(self
            .value(&COUNTTAB)?
            .map(|value| unsafe { &mut *value.cast::<TableObject>() }))
    }

    /// Makes the key, which is missing, hold this table.
    pub fn store_table(&mut self, table: Box<TableObject>) {
        self.call.begin();
        counttab::created(&table);
        self.store(&COUNTTAB, Box::into_raw(table).cast());
    }

    fn store(&mut self, kind: &Native, value: *mut u8) {
        let status = api!(RedisModule_ModuleTypeSetValue(
            self.raw,
            kind.raw(),
            value.cast()
        ));
        assert_eq!(
            status,
            raw::REDISMODULE_OK as c_int,
            "the key is open for writing"
        );
    }

    /// Removes the key.
    pub fn delete(&mut self) {
        self.call.begin();
        api!(RedisModule_DeleteKey(self.raw));
    }

    /// Hands the bytes of the String that the key holds to `read`.
    ///
    /// They come from GET: the module API's direct access, which serves where an operator has taken GET away, would turn
    /// a String that the server keeps as an integer, or beside its object's head, into a larger one for good.
    pub fn string<R>(&self, read: impl FnOnce(&[u8]) -> R) -> R {
        let name = api!(RedisModule_GetKeyNameFromModuleKey(self.raw));
        let reply = api!(RedisModule_Call(
            self.call.ctx(),
            c"GET".as_ptr(),
            c"s".as_ptr(),
            name
        ));
        let (mut ptr, mut len) = (std::ptr::null(), 0);
        if !reply.is_null() {
            ptr = api!(RedisModule_CallReplyStringPtr(reply, &mut len));
        }
        if ptr.is_null() {
            let mode = raw::REDISMODULE_READ as c_int;
            ptr = api!(RedisModule_StringDMA(self.raw, &mut len, mode));
        }
        let result = if ptr.is_null() || len == 0 {
            read(&[])
        } else {
            // SAFETY: the reply's bytes, which live until it is freed below, or the value's own, which stay as they are while
            // the key is open and not written to.
            read(unsafe { std::slice::from_raw_parts(ptr.cast(), len) })
        };
        if !reply.is_null() {
            api!(RedisModule_FreeCallReply(reply));
        }
        result
    }

    /// How many elements the Hash, List, ... at the key has, or how many bytes the String.
    pub fn element_count(&self) -> usize {
        api!(RedisModule_ValueLength(self.raw))
    }

    /// Reads one field of the Hash that the key holds and hands its bytes to `read`; None where there is no such field.
    pub fn hash_field<R>(
        &self,
        field: *mut raw::RedisModuleString,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let mut value: *mut raw::RedisModuleString = std::ptr::null_mut();
        let end: *mut u8 = std::ptr::null_mut();
        api!(RedisModule_HashGet(
            self.raw,
            raw::REDISMODULE_HASH_NONE as c_int,
            field,
            &mut value,
            end
        ));
        if value.is_null() {
            return None;
        }
        let result = read(crate::call::bytes(value));
        api!(RedisModule_FreeString(self.call.ctx(), value));
        Some(result)
    }

    /// Hands each element of the Set that the key holds to `visit`.
    pub fn for_each_element<F: FnMut(&[u8])>(&self, mut visit: F) {
        unsafe extern "C" fn element<F: FnMut(&[u8])>(
            _key: *mut raw::RedisModuleKey,
            name: *mut raw::RedisModuleString,
            _value: *mut raw::RedisModuleString,
            visit: *mut c_void,
        ) {
            // SAFETY: `visit` is the closure below, which lives until the scan ends.
            let visit = unsafe { &mut *visit.cast::<F>() };
            visit(crate::call::bytes(name));
        }
        let cursor = api!(RedisModule_ScanCursorCreate());
        let state = (&raw mut visit).cast::<c_void>();
        while api!(RedisModule_ScanKey(
            self.raw,
            cursor,
            Some(element::<F>),
            state
        )) != 0
        {}
        api!(RedisModule_ScanCursorDestroy(cursor));
    }

    /// Whether any of these fields of the Hash that the key holds has a time to live of its own. Servers older than
    /// Redis 7.4 know no such thing, nor the command that tells it.
    pub fn any_field_expires(&self, fields: &[*mut raw::RedisModuleString]) -> bool {
        let name = api!(RedisModule_GetKeyNameFromModuleKey(self.raw));
        let times = api!(RedisModule_Call(
            self.call.ctx(),
            c"HPEXPIRETIME".as_ptr(),
            c"sclv".as_ptr(),
            name,
            c"FIELDS".as_ptr(),
            fields.len() as i64,
            fields.as_ptr(),
            fields.len()
        ));
        if times.is_null() {
            return false;
        }
        let array = raw::REDISMODULE_REPLY_ARRAY as c_int;
        let len = match api!(RedisModule_CallReplyType(times)) {
            kind if kind == array => api!(RedisModule_CallReplyLength(times)),
            _ => 0,
        };
        // Negative where there is no time to live, or no such field.
        let expires = (0..len).any(|i| {
            let time = api!(RedisModule_CallReplyArrayElement(times, i));
            api!(RedisModule_CallReplyInteger(time)) >= 0
        });
        api!(RedisModule_FreeCallReply(times));
        expires
    }

    /// When the key expires, in milliseconds since 1970; None if it does not.
    pub fn expiry(&self) -> Option<i64> {
        let at = api!(RedisModule_GetAbsExpire(self.raw));
        (at != i64::from(raw::REDISMODULE_NO_EXPIRE)).then_some(at)
    }

    /// Sets when the key expires, in milliseconds since 1970.
    pub fn set_expiry(&mut self, at: i64) {
        api!(RedisModule_SetAbsExpire(self.raw, at));
    }
}
