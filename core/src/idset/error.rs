//! The errors of decoding.

use std::io;

/// Why bytes cannot be decoded to a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// The bytes are not a saved or exported set.
    #[error("invalid payload")]
    Payload,
    /// The allocator refused.
    #[error("out of memory")]
    OutOfMemory,
}

/// Reading from bytes fails only at their end, so the payload is truncated.
impl From<io::Error> for SetError {
    fn from(_: io::Error) -> SetError {
        SetError::Payload
    }
}
