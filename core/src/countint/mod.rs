//! CountInt: a handful of unsigned 40-bit counters in one small allocation.
//!
//! - [`CountInt`] owns the memory: a two-byte length and the fields, so five counters fit a 32-byte cell.
//! - [`Fields`] is a view of the counters, wherever their bytes are. Everything that reads or changes a counter is
//!   there, in safe code.
//!
//! A field is [`FIELD_BYTES`] bytes, big-endian, with nothing between the fields: byte for byte what
//! `BITFIELD key SET u40 #idx value` writes into a String.

mod batch;
#[allow(
    unsafe_code,
    reason = "one allocation with a length header, handed to Redis as a raw pointer"
)]
mod cell;
mod fields;

pub use batch::Batch;
pub use cell::CountInt;
pub use fields::{Fields, Step};

/// The bytes of a field.
pub const FIELD_BYTES: usize = 5;

/// The largest value of a field, 2^40 - 1. The smallest is 0.
pub const FIELD_MAX: u64 = (1 << 40) - 1;

/// The most fields that a [`CountInt`] holds. The fewest is 1.
pub const MAX_LEN: usize = 65_535;

/// What becomes of a step that would leave `0 ..= FIELD_MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// The field stops at the bound.
    Saturate,
    /// Nothing is changed and the call fails with [`CountError::Overflow`].
    Fail,
}

/// Why a call was refused. Whatever the reason, nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CountError {
    /// There is no field of that index.
    #[error("index out of range")]
    IndexOutOfRange,
    /// A value over [`FIELD_MAX`].
    #[error("value is not an integer or out of range")]
    ValueOutOfRange,
    /// An increment under [`Overflow::Fail`] would leave `0 ..= FIELD_MAX`.
    #[error("increment would overflow")]
    Overflow,
    /// A length outside `1 ..= MAX_LEN`.
    #[error("length must be between 1 and 65535")]
    Length,
    /// A shorter copy would drop a field that is not 0.
    #[error("field is not zero")]
    FieldNotZero,
    /// Bytes that are not `1 ..= MAX_LEN` whole fields.
    #[error("invalid payload")]
    Payload,
    /// The allocator refused.
    #[error("out of memory")]
    OutOfMemory,
}
