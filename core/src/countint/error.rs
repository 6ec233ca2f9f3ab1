//! The errors of operations on counters.

use std::io;

/// The error of an operation on counters, which has changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CountError {
    /// The index is not below the number of fields.
    #[error("index out of range")]
    IndexOutOfRange,
    /// A value over [`FIELD_MAX`](super::FIELD_MAX).
    #[error("value is not an integer or out of range")]
    ValueOutOfRange,
    /// An increment under [`Overflow::Fail`](super::Overflow::Fail) would leave `0 ..= FIELD_MAX`.
    #[error("increment would overflow")]
    Overflow,
    /// A length outside `1 ..= MAX_LEN`.
    #[error("length must be between 1 and 65535")]
    Length,
    /// A shorter object would lose a field that is not 0.
    #[error("field is not zero")]
    FieldNotZero,
    /// The bytes are not a valid object, table or blob.
    #[error("invalid payload")]
    Payload,
    /// An allocation failed.
    #[error("out of memory")]
    OutOfMemory,
}

/// Reading from a slice fails only at its end: the payload is truncated.
impl From<io::Error> for CountError {
    fn from(_: io::Error) -> CountError {
        CountError::Payload
    }
}
