//! What all writes of counters share: creating a missing object, growing a short one, changing its fields, all of it or
//! nothing, and telling the server of it.

use std::ffi::CStr;

use countint_core::countint::{CountInt, Fields};

use crate::config;
use crate::error::Error;
use crate::key::KeyMut;
use crate::replicate::Replicate;

/// What a write has done to the object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Nothing at all.
    Nothing,
    /// Its fields or its length are others now.
    Changed,
    /// It was missing and is there now.
    Created,
}

/// How a write is told to others.
pub struct Told<F> {
    /// The keyspace event.
    pub event: &'static CStr,
    /// The number after LEN.
    pub len: Option<usize>,
    /// How a call without LEN is replicated that has created an object, or a table, of so many counters.
    pub created: F,
}

impl<F: FnOnce(usize) -> Replicate> Told<F> {
    /// The length of an object that is created, and how that is replicated.
    pub fn creation(self) -> Result<(usize, Replicate), Error> {
        if let Some(len) = self.len {
            return Ok((len, Replicate::Verbatim));
        }
        let len = config::default_len().ok_or(Error::NoSuchKey)?;
        Ok((len, (self.created)(len)))
    }
}

/// With `LEN` put in before argument `at`.
pub fn with_len(at: usize) -> impl FnOnce(usize) -> Replicate {
    move |len| Replicate::WithLen { len, at }
}

/// Changes the counters at a key, after making them at least `told.len` fields long; a missing object gets so many
/// fields, or the setting's number. Then tells the server, if anything has changed.
///
/// `apply` does the work, all of it or none, and tells whether it made a difference. When it fails, nothing has been
/// created or grown either.
#[inline]
pub fn write<R>(
    mut key: KeyMut,
    told: Told<impl FnOnce(usize) -> Replicate>,
    apply: impl FnOnce(&mut Fields) -> Result<(bool, R), Error>,
) -> Result<(Change, R), Error> {
    let (event, len) = (told.event, told.len);
    let call = key.call();
    let grown = match key.fields_mut()? {
        Some(fields) if len.is_none_or(|len| len <= fields.len()) => {
            call.begin();
            let (changed, result) = apply(fields)?;
            if !changed {
                return Ok((Change::Nothing, result));
            }
            key.changed(Replicate::Verbatim).publish(event);
            return Ok((Change::Changed, result));
        }
        Some(fields) => Some(fields.resized(len.unwrap_or_default())?),
        None => None,
    };
    if let Some(mut counters) = grown {
        let (_, result) = apply(counters.fields_mut())?;
        key.replace_counters(counters);
        key.changed(Replicate::Verbatim).publish(event);
        return Ok((Change::Changed, result));
    }
    let (len, replicate) = told.creation()?;
    let mut counters = CountInt::new(len)?;
    let (_, result) = apply(counters.fields_mut())?;
    key.store_counters(counters, replicate).publish(event);
    Ok((Change::Created, result))
}
