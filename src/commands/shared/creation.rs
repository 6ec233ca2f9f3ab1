//! Writes that create a missing object or table.

use std::ffi::CStr;

use crate::config;
use crate::error::Error;
use crate::server::Replicate;
use crate::server::replicate::IntOption;

/// How a write of counters is published and replicated.
pub struct WriteEffects<F> {
    /// The keyspace event.
    pub event: &'static CStr,
    /// The number after `LEN`: the object or table has at least this length after the write.
    pub len: Option<usize>,
    /// How a call without `LEN` is replicated if it creates an object or table of this length.
    pub replicate_created: F,
}

impl<F: FnOnce(usize) -> Replicate<'static>> WriteEffects<F> {
    /// The length of a new object or table, and how its creation is replicated.
    ///
    /// # Errors
    /// [`Error::NoSuchKey`] without `LEN` if `countint.default-len` is 0.
    pub fn creation(self) -> Result<(usize, Replicate<'static>), Error> {
        if let Some(len) = self.len {
            return Ok((len, Replicate::Verbatim));
        }
        let len = config::default_len().ok_or(Error::NoSuchKey)?;
        Ok((len, (self.replicate_created)(len)))
    }
}

/// Replicates the call with `LEN` inserted before argument `at`.
pub fn with_len(at: usize) -> impl FnOnce(usize) -> Replicate<'static> {
    move |len| Replicate::WithOption {
        command: None,
        option: len_option(len),
        at,
    }
}

/// Replicates the call as `command`, with `LEN` inserted before argument `at`.
pub fn as_command_with_len(
    command: &'static CStr,
    at: usize,
) -> impl FnOnce(usize) -> Replicate<'static> {
    move |len| Replicate::WithOption {
        command: Some(command),
        option: len_option(len),
        at,
    }
}

/// `LEN len`
pub fn len_option(len: usize) -> IntOption {
    (c"LEN", len as i64)
}
