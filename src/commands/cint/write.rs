//! What all writes of counters share: creating a missing object, growing a short one, and changing its fields, all
//! of it or nothing.

use std::ffi::CStr;

use countint_core::countint::{CountInt, Fields};

use crate::call::{Call, Replicate};
use crate::config;
use crate::error::Error;

/// What a write has done to the object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Nothing at all.
    Nothing,
    /// Its fields or its length are others now.
    Changed,
    /// It was missing and now has so many fields.
    Created(usize),
}

/// Changes the counters at the key (argument 1), after making them at least `len` fields long; a missing object gets
/// `len` fields, or the setting's number.
///
/// `apply` does the work, all of it or none, and tells whether it made a difference. When it fails, nothing has been
/// created or grown either.
#[inline]
pub fn write<R>(
    call: &Call,
    len: Option<usize>,
    apply: impl FnOnce(&mut Fields) -> Result<(bool, R), Error>,
) -> Result<(Change, R), Error> {
    let mut key = call.write(1);
    let grown = match key.fields_mut()? {
        Some(fields) if len.is_none_or(|len| len <= fields.len()) => {
            call.begin();
            let (changed, result) = apply(fields)?;
            return Ok((
                if changed {
                    Change::Changed
                } else {
                    Change::Nothing
                },
                result,
            ));
        }
        Some(fields) => Some(fields.resized(len.unwrap_or_default())?),
        None => None,
    };
    if let Some(mut counters) = grown {
        let (_, result) = apply(counters.fields_mut())?;
        key.replace_counters(counters);
        return Ok((Change::Changed, result));
    }
    let len = len.or_else(config::default_len).ok_or(Error::NoSuchKey)?;
    let mut counters = CountInt::new(len)?;
    let (_, result) = apply(counters.fields_mut())?;
    key.store_counters(counters);
    Ok((Change::Created(len), result))
}

/// Tells the server what a write has done. The replicated command says the length of an object that it created, before
/// argument `len_at`, where the client's own did not.
#[inline]
pub fn publish(call: &Call, event: &CStr, change: Change, len: Option<usize>, len_at: usize) {
    match change {
        Change::Nothing => {}
        Change::Created(created) if len.is_none() => {
            let replicate = Replicate::WithLen {
                len: created,
                at: len_at,
            };
            call.changed(1, event, replicate);
        }
        Change::Changed | Change::Created(_) => call.changed(1, event, Replicate::Verbatim),
    }
}
