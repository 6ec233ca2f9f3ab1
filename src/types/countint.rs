//! `CountInt5`: counters in one allocation; see `countint_core::countint`.

use std::ffi::{CStr, c_int};
use std::ptr::NonNull;

use countint_core::countint::{CountInt, Fields};

use super::data_type::DataType;
use crate::server::alloc;
use crate::server::aof::AofWriter;
use crate::server::content::TypeHandle;
use crate::server::defrag::Defrag;
use crate::server::digest::Digest;
use crate::server::key::OpenKey;
use crate::server::rdb::{Loader, Rejected, Saver};
use crate::stats::{self, Totals};

static HANDLE: TypeHandle = TypeHandle::new();

// SAFETY: the handle is this type's own. The pointers are those of `CountInt::into_raw`.
unsafe impl DataType for CountInt {
    const NAME: &'static CStr = c"CountInt5";

    /// Version 1: one string, the fields.
    const ENCODING: c_int = 1;

    type Ref<'v> = &'v Fields;
    type Mut<'v> = &'v mut Fields;

    #[inline]
    fn handle() -> &'static TypeHandle {
        &HANDLE
    }

    fn totals() -> &'static Totals {
        &stats::COUNTINT
    }

    #[inline]
    fn into_raw(self) -> NonNull<u8> {
        // SAFETY: the address of an allocation.
        unsafe { NonNull::new_unchecked(CountInt::into_raw(self)) }
    }

    #[inline]
    unsafe fn from_raw(value: NonNull<u8>) -> Self {
        // SAFETY: the caller's promise.
        unsafe { CountInt::from_raw(value.as_ptr()) }
    }

    #[inline]
    unsafe fn borrow<'v>(value: NonNull<u8>) -> &'v Fields {
        // SAFETY: the caller's promise.
        unsafe { CountInt::borrow_raw(value.as_ptr()) }
    }

    #[inline]
    unsafe fn borrow_mut(value: NonNull<u8>, _key: &mut OpenKey) -> &mut Fields {
        // SAFETY: the caller's promise.
        unsafe { CountInt::borrow_raw_mut(value.as_ptr()) }
    }

    fn elements(&self) -> u64 {
        self.fields().len() as u64
    }

    fn bytes(&self) -> usize {
        // SAFETY: the object is one live allocation with an alignment of 2.
        unsafe { alloc::allocated_size(self.as_ptr()) }
    }

    fn load(loader: &Loader, encoding: c_int) -> Result<Self, Rejected> {
        if encoding != Self::ENCODING {
            return Err(Rejected);
        }
        CountInt::from_bytes(&loader.string()?).map_err(|_| Rejected)
    }

    fn save(&self, saver: &Saver) {
        saver.string(self.fields().as_bytes());
    }

    fn aof_rewrite(&self, aof: &AofWriter) {
        aof.emit(c"CINT.IMPORT", self.fields().as_bytes());
    }

    fn digest(&self, digest: &Digest) {
        digest.add(self.fields().as_bytes());
    }

    fn copy(&self) -> Option<Self> {
        CountInt::from_bytes(self.fields().as_bytes()).ok()
    }

    fn free_effort(&self) -> usize {
        1
    }

    fn defrag_step(self, defrag: &Defrag, _cursor: u64) -> (Self, Option<u64>) {
        let value = DataType::into_raw(self);
        // SAFETY: the object's only allocation, at its new address from here on.
        let moved = unsafe { <Self as DataType>::from_raw(defrag.move_allocation(value)) };
        (moved, None)
    }
}
