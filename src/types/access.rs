//! Access to the values that keys hold, by their types.

use std::ptr::NonNull;

use countint_core::countint::{CountInt, Fields};
use countint_core::idset::IdSet;

use super::counttab::{Table, TableObject};
use super::data_type::{DataType, from_server, into_server};
use super::idset::{SetMut, SetRef};
use crate::error::Error;
use crate::server::key::Changed;
use crate::server::{Key, KeyMut, Replicate, Values};

impl Key<'_> {
    /// The value of type `T` that the key holds; None if the key is missing.
    #[inline]
    fn value<T: DataType>(&self) -> Result<Option<T::Ref<'_>>, Error> {
        let value = self.content().value(T::handle())?;
        // SAFETY: the server keeps the value while the key is open, and changing it takes `&mut` of the key.
        Ok(value.map(|value| unsafe { T::borrow(value) }))
    }

    /// The counters that the key holds; None if the key is missing.
    #[inline]
    pub fn fields(&self) -> Result<Option<&Fields>, Error> {
        self.value::<CountInt>()
    }

    /// The set that the key holds; None if the key is missing.
    #[inline]
    pub fn set(&self) -> Result<Option<SetRef<'_>>, Error> {
        self.value::<IdSet>()
    }

    /// The table that the key holds; None if the key is missing.
    #[inline]
    pub fn table(&self) -> Result<Option<&TableObject>, Error> {
        self.value::<Table>()
    }
}

impl Values<'_> {
    /// The value of type `T` that the `n`th key holds; None if the key is missing.
    #[inline]
    fn value<T: DataType>(&self, n: usize) -> Result<Option<T::Ref<'_>>, Error> {
        let value = self.content(n).value(T::handle())?;
        // SAFETY: nothing changes or frees the value while `Values` borrows the call's `Keyspace`.
        Ok(value.map(|value| unsafe { T::borrow(value) }))
    }

    /// The counters that the `n`th key holds; None if the key is missing.
    #[inline]
    pub fn fields(&self, n: usize) -> Result<Option<&Fields>, Error> {
        self.value::<CountInt>(n)
    }

    /// The set that the `n`th key holds; None if the key is missing.
    pub fn set(&self, n: usize) -> Result<Option<SetRef<'_>>, Error> {
        self.value::<IdSet>(n)
    }

    /// The table that the `n`th key holds; None if the key is missing.
    pub fn table(&self, n: usize) -> Result<Option<&TableObject>, Error> {
        self.value::<Table>(n)
    }
}

impl<'k, 'a> KeyMut<'k, 'a> {
    /// The value of type `T` that the key holds, mutable; None if the key is missing.
    #[inline]
    fn value_mut<T: DataType>(&mut self) -> Result<Option<T::Mut<'_>>, Error> {
        let key = self.open_key_mut();
        let value = key.content().value(T::handle())?;
        // SAFETY: the server keeps the value while the key is open, and `&mut self` is the only access to it.
        Ok(value.map(|value| unsafe { T::borrow_mut(value, key) }))
    }

    /// The counters that the key holds, mutable; None if the key is missing.
    #[inline]
    pub fn fields_mut(&mut self) -> Result<Option<&mut Fields>, Error> {
        self.value_mut::<CountInt>()
    }

    /// The set that the key holds, mutable; None if the key is missing.
    #[inline]
    pub fn set_mut(&mut self) -> Result<Option<SetMut<'_>>, Error> {
        self.value_mut::<IdSet>()
    }

    /// The table that the key holds, mutable; None if the key is missing.
    #[inline]
    pub fn table_mut(&mut self) -> Result<Option<&mut TableObject>, Error> {
        self.value_mut::<Table>()
    }

    /// Replaces the counters that the key holds. The TTL stays.
    ///
    /// # Panics
    /// If the key does not hold counters.
    pub fn replace_fields(&mut self, counters: CountInt) {
        assert!(
            matches!(self.fields(), Ok(Some(_))),
            "the key holds counters"
        );
        self.call().begin_effects();
        let counters = into_server(counters);
        // SAFETY: the key is open for writing and holds a value of this type.
        let old = unsafe {
            self.open_key_mut()
                .replace_value(CountInt::handle(), counters)
        };
        if let Some(old) = NonNull::new(old) {
            // SAFETY: the server has returned the value that it held.
            drop(unsafe { from_server::<CountInt>(old) });
        }
    }

    /// Stores `value` at the key, replacing any value, and clears the TTL.
    pub fn store<T: DataType>(self, value: T, replicate: Replicate) -> Changed<'k, 'a> {
        self.store_with_expiry(value, None, replicate)
    }

    /// Stores `value` at the key, replacing any value, with the TTL `expiry` in Unix milliseconds.
    pub fn store_with_expiry<T: DataType>(
        self,
        value: T,
        expiry: Option<i64>,
        replicate: Replicate,
    ) -> Changed<'k, 'a> {
        let value = into_server(value);
        // SAFETY: a value of the type of the handle, which the server owns from here on.
        unsafe { self.set_value(T::handle(), value, expiry, replicate) }
    }
}
