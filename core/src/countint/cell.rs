//! The memory of a CountInt: one allocation behind one pointer.
//!
//! ```text
//! +---------------------+---------+---------+-----+
//! | len: u16, native    | field 0 | field 1 | ... |     2 + 5 * len bytes, aligned to 2
//! +---------------------+---------+---------+-----+
//! ```
//!
//! The owner stores one raw pointer, so the length is in the allocation. Five fields take 27 bytes, which allocators
//! round up to 32. A boxed `Box<[u8]>` would be two allocations.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::{fmt, mem, slice};

use super::error::CountError;
use super::fields::{FIELD_BYTES, Fields};

/// The maximum number of fields of a [`CountInt`]. The minimum is 1.
pub const MAX_LEN: usize = 65_535;

/// The size of the length header in bytes.
const HEADER: usize = mem::size_of::<u16>();

/// `1 ..= MAX_LEN` counters in a single allocation. The `CountInt` itself is one pointer.
///
/// It dereferences to [`Fields`], which reads and writes the counters.
pub struct CountInt(NonNull<u8>);

// SAFETY: a CountInt is the only owner of its allocation, which is plain bytes and belongs to no thread.
unsafe impl Send for CountInt {}

impl CountInt {
    /// `len` counters, all 0. O(len).
    ///
    /// # Errors
    /// [`CountError::Length`] outside `1 ..= MAX_LEN`, [`CountError::OutOfMemory`].
    pub fn new(len: usize) -> Result<CountInt, CountError> {
        let len = checked_len(len).ok_or(CountError::Length)?;
        // SAFETY: the size of the layout is not 0, since it includes the header.
        let cell =
            NonNull::new(unsafe { alloc_zeroed(layout(len)) }).ok_or(CountError::OutOfMemory)?;
        // SAFETY: the allocation begins with the header, is aligned for it and was just made.
        unsafe { cell.cast::<u16>().write(len) };
        Ok(CountInt(cell))
    }

    /// Decodes counters of 5 big-endian bytes each. O(length).
    ///
    /// # Errors
    /// [`CountError::Payload`] unless `b` is `1 ..= MAX_LEN` whole fields, [`CountError::OutOfMemory`].
    pub fn from_bytes(b: &[u8]) -> Result<CountInt, CountError> {
        let fields = Fields::from_bytes(b).ok_or(CountError::Payload)?;
        let mut new = CountInt::new(fields.len()).map_err(|e| match e {
            CountError::Length => CountError::Payload,
            e => e,
        })?;
        new.as_bytes_mut().copy_from_slice(b);
        Ok(new)
    }

    /// The counters.
    #[inline]
    pub fn fields(&self) -> &Fields {
        // SAFETY: the cell lives as long as `self`, and `&self` excludes changes.
        unsafe { CountInt::borrow_raw(self.0.as_ptr()) }
    }

    /// The counters, mutable.
    #[inline]
    pub fn fields_mut(&mut self) -> &mut Fields {
        // SAFETY: the cell lives as long as `self`, and `&mut self` is exclusive.
        unsafe { CountInt::borrow_raw_mut(self.0.as_ptr()) }
    }

    /// The allocation, to query its size from the allocator.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.0.as_ptr()
    }

    /// Converts to a raw pointer. The memory must be freed through [`from_raw`](CountInt::from_raw).
    #[inline]
    pub fn into_raw(self) -> *mut u8 {
        mem::ManuallyDrop::new(self).0.as_ptr()
    }

    /// Converts a raw pointer back, with its ownership.
    ///
    /// # Safety
    /// `p` came from [`into_raw`](CountInt::into_raw), is converted back only once, and is not borrowed.
    #[inline]
    pub unsafe fn from_raw(p: *mut u8) -> CountInt {
        // SAFETY: `into_raw` returns the pointer of a NonNull.
        CountInt(unsafe { NonNull::new_unchecked(p) })
    }

    /// The counters behind a pointer, without taking ownership.
    ///
    /// # Safety
    /// `p` came from [`into_raw`](CountInt::into_raw). During `'a` it is not converted back, and nothing changes the
    /// counters.
    #[inline]
    pub unsafe fn borrow_raw<'a>(p: *mut u8) -> &'a Fields {
        // SAFETY: the cell is alive (the caller's promise); `new` wrote its header and zeroed that many fields.
        Fields::view(unsafe { slice::from_raw_parts(p.add(HEADER).cast(), len_of(p).into()) })
    }

    /// The counters behind a pointer, mutable, without taking ownership.
    ///
    /// # Safety
    /// `p` came from [`into_raw`](CountInt::into_raw). During `'a` it is not converted back, and nothing else reads or
    /// changes the counters.
    #[inline]
    pub unsafe fn borrow_raw_mut<'a>(p: *mut u8) -> &'a mut Fields {
        // SAFETY: as in `borrow_raw`, and no other reference to the fields exists (the caller's promise).
        Fields::view_mut(unsafe {
            slice::from_raw_parts_mut(p.add(HEADER).cast(), len_of(p).into())
        })
    }
}

impl Fields {
    /// A copy with `len` counters: the first ones of this object, then zeros. O(len).
    ///
    /// With the same length this is a copy that, unlike [`Clone`], reports a failed allocation.
    ///
    /// # Errors
    /// [`CountError::Length`] outside `1 ..= MAX_LEN`, else [`CountError::FieldNotZero`] when a counter that is not 0
    /// would be lost, else [`CountError::OutOfMemory`].
    pub fn resized(&self, len: usize) -> Result<CountInt, CountError> {
        let len = usize::from(checked_len(len).ok_or(CountError::Length)?);
        let old = self.as_bytes();
        let (kept, dropped) = old.split_at(old.len().min(FIELD_BYTES * len));
        if dropped.iter().any(|&byte| byte != 0) {
            return Err(CountError::FieldNotZero);
        }
        let mut new = CountInt::new(len)?;
        new.as_bytes_mut()[..kept.len()].copy_from_slice(kept);
        Ok(new)
    }
}

impl Drop for CountInt {
    fn drop(&mut self) {
        let p = self.0.as_ptr();
        // SAFETY: `new` allocated the cell with the layout of this length, which never changes, and `self` owns it.
        unsafe { dealloc(p, layout(len_of(p))) };
    }
}

impl Clone for CountInt {
    /// Aborts if the allocation fails, as every `Clone` does. [`Fields::resized`] reports an error instead.
    fn clone(&self) -> CountInt {
        self.resized(self.len()).unwrap_or_else(|_| {
            // SAFETY: the cell lives as long as `self`.
            handle_alloc_error(layout(unsafe { len_of(self.0.as_ptr()) }))
        })
    }
}

impl Deref for CountInt {
    type Target = Fields;

    #[inline]
    fn deref(&self) -> &Fields {
        self.fields()
    }
}

impl DerefMut for CountInt {
    #[inline]
    fn deref_mut(&mut self) -> &mut Fields {
        self.fields_mut()
    }
}

impl PartialEq for CountInt {
    fn eq(&self, other: &CountInt) -> bool {
        self.fields() == other.fields()
    }
}

impl Eq for CountInt {}

impl fmt::Debug for CountInt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CountInt").field(&self.fields()).finish()
    }
}

/// `len` as the type of the header, if it is a valid length.
fn checked_len(len: usize) -> Option<u16> {
    u16::try_from(len).ok().filter(|&len| len != 0)
}

/// The layout of a cell of `len` fields.
const fn layout(len: u16) -> Layout {
    let size = HEADER + FIELD_BYTES * len as usize;
    // SAFETY: the alignment is a power of two, and less than 2^20 bytes do not overflow when rounded up to it.
    unsafe { Layout::from_size_align_unchecked(size, mem::align_of::<u16>()) }
}

/// The length in the header of a cell.
///
/// # Safety
/// `p` points to a live cell.
#[inline]
unsafe fn len_of(p: *const u8) -> u16 {
    // SAFETY: a live cell (the caller's promise) begins with its length and is aligned for it.
    unsafe { p.cast::<u16>().read() }
}

// The type of the header determines the maximum.
const _: () = assert!(MAX_LEN == u16::MAX as usize);
