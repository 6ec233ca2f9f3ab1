//! The errors of decoding.

use std::io;

/// The error of decoding a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// The bytes are not a saved or exported set.
    #[error("invalid payload")]
    Payload,
    /// An allocation failed.
    #[error("out of memory")]
    OutOfMemory,
}

/// Reading from a slice fails only at its end: the payload is truncated.
impl From<io::Error> for SetError {
    fn from(_: io::Error) -> SetError {
        SetError::Payload
    }
}
