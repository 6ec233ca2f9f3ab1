//! The view of counters in bytes: reading and changing single fields.

use std::fmt;

use super::error::CountError;

/// The size of a field in bytes.
pub const FIELD_BYTES: usize = 5;

/// The largest value of a field, 2^40 - 1. The smallest is 0.
pub const FIELD_MAX: u64 = (1 << 40) - 1;

/// The overflow mode: the effect of an increment whose result is outside `0 ..= FIELD_MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// The field stops at the bound.
    Saturate,
    /// Nothing is changed and the call fails with [`CountError::Overflow`].
    Fail,
}

/// A view of big-endian 40-bit counters, as `str` is a view of UTF-8. It is always borrowed, has any number of fields, and
/// its bytes can be in a [`CountInt`](super::CountInt), a reply or a Redis String.
///
/// Every byte pattern is valid. Only [`resized`](Fields::resized) and [`incr_all`](Fields::incr_all) allocate memory.
#[derive(PartialEq, Eq)]
#[repr(transparent)]
pub struct Fields([[u8; FIELD_BYTES]]);

/// The result of [`Fields::incr`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IncrResult {
    /// The value before.
    pub old: u64,
    /// The value after.
    pub new: u64,
    /// Whether the increment stopped at 0 or at [`FIELD_MAX`]. Reaching a bound exactly does not count.
    pub saturated: bool,
}

impl IncrResult {
    /// Adds `delta` to `old`, the value of a field, and stops at the bounds.
    #[inline]
    pub(crate) fn saturating(old: u64, delta: i64) -> IncrResult {
        // A sum below 0 wraps to 2^63 or more, and one above FIELD_MAX stays below 2^64: one comparison finds both.
        let sum = old.wrapping_add_signed(delta);
        let saturated = sum > FIELD_MAX;
        let bound = if delta < 0 { 0 } else { FIELD_MAX };
        let new = if saturated { bound } else { sum };
        IncrResult {
            old,
            new,
            saturated,
        }
    }
}

impl Fields {
    /// Views `b` as fields, in O(1). `None` unless its length is a multiple of [`FIELD_BYTES`].
    #[inline]
    pub fn from_bytes(b: &[u8]) -> Option<&Fields> {
        match b.as_chunks() {
            (fields, []) => Some(Fields::view(fields)),
            _ => None,
        }
    }

    /// The number of fields.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no fields. Always false for a [`CountInt`](super::CountInt).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The `FIELD_BYTES * len` bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_flattened()
    }

    #[inline]
    pub(super) fn as_bytes_mut(&mut self) -> &mut [u8] {
        self.0.as_flattened_mut()
    }

    /// The value of a field. `None` when the index is out of range. O(1).
    #[inline]
    pub fn get(&self, idx: usize) -> Option<u64> {
        self.0.get(idx).map(decode)
    }

    /// The values, in order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.0.iter().map(decode)
    }

    /// Sets a field and returns its old value. O(1).
    ///
    /// # Errors
    /// [`CountError::ValueOutOfRange`] over [`FIELD_MAX`], else [`CountError::IndexOutOfRange`].
    #[inline]
    pub fn set(&mut self, idx: usize, value: u64) -> Result<u64, CountError> {
        if value > FIELD_MAX {
            return Err(CountError::ValueOutOfRange);
        }
        self.replace(idx, value).ok_or(CountError::IndexOutOfRange)
    }

    /// [`set`](Fields::set) for a value that is known to be in range. `None` when the index is out of range.
    #[inline]
    pub(super) fn replace(&mut self, idx: usize, value: u64) -> Option<u64> {
        let field = self.0.get_mut(idx)?;
        let old = decode(field);
        write(field, value);
        Some(old)
    }

    /// Adds `delta` to a field. O(1).
    ///
    /// # Errors
    /// [`CountError::IndexOutOfRange`], or [`CountError::Overflow`] under [`Overflow::Fail`].
    #[inline]
    pub fn incr(&mut self, idx: usize, delta: i64, o: Overflow) -> Result<IncrResult, CountError> {
        let field = self.0.get_mut(idx).ok_or(CountError::IndexOutOfRange)?;
        let step = IncrResult::saturating(decode(field), delta);
        if step.saturated && o == Overflow::Fail {
            return Err(CountError::Overflow);
        }
        write(field, step.new);
        Ok(step)
    }

    #[inline]
    #[allow(
        unsafe_code,
        reason = "the cast from a slice to its transparent wrapper, as in str"
    )]
    pub(super) fn view(fields: &[[u8; FIELD_BYTES]]) -> &Fields {
        // SAFETY: Fields is a transparent wrapper of this slice type, and every byte pattern is valid in both.
        unsafe { &*(std::ptr::from_ref(fields) as *const Fields) }
    }

    #[inline]
    #[allow(
        unsafe_code,
        reason = "the cast from a slice to its transparent wrapper, as in str"
    )]
    pub(super) fn view_mut(fields: &mut [[u8; FIELD_BYTES]]) -> &mut Fields {
        // SAFETY: as in `view`; the result has the exclusive borrow.
        unsafe { &mut *(std::ptr::from_mut(fields) as *mut Fields) }
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[inline]
fn decode(&[a, b, c, d, e]: &[u8; FIELD_BYTES]) -> u64 {
    u64::from_be_bytes([0, 0, 0, a, b, c, d, e])
}

/// Stores `value`, at most [`FIELD_MAX`], in a field.
///
/// It makes two stores of the widths of the loads in `decode`. An increment right after another one then reads the store
/// buffer of the CPU (store forwarding), which takes several times as long when the widths differ.
#[inline]
fn write(field: &mut [u8; FIELD_BYTES], value: u64) {
    let [_, _, _, high, low @ ..] = value.to_be_bytes();
    field[0] = high;
    field[1..].copy_from_slice(&low);
}
