//! Writing the counters of an object: creating a missing object, growing a short one, and publishing the change.

use countint_core::countint::{CountInt, Fields};

use crate::commands::shared::creation::WriteEffects;
use crate::error::Error;
use crate::server::{KeyMut, Replicate};

/// The effect of a write on the object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// The object is unchanged.
    Unchanged,
    /// The fields or the length have changed.
    Changed,
    /// The object has been created.
    Created,
}

/// Changes the counters at a key with `apply`, and publishes and replicates the change, if any.
///
/// A shorter object first grows to `effects.len` fields. A missing one is created with that length, or with
/// `countint.default-len`. `apply` changes all or nothing, and returns whether it changed anything. If it fails, the
/// object is neither created nor grown.
#[inline]
pub fn write<R>(
    mut key: KeyMut,
    effects: WriteEffects<impl FnOnce(usize) -> Replicate<'static>>,
    apply: impl FnOnce(&mut Fields) -> Result<(bool, R), Error>,
) -> Result<(Change, R), Error> {
    let (event, len) = (effects.event, effects.len);
    let call = key.call();
    let grown = match key.fields_mut()? {
        Some(fields) if len.is_none_or(|len| len <= fields.len()) => {
            call.begin_effects();
            let (changed, result) = apply(fields)?;
            if !changed {
                return Ok((Change::Unchanged, result));
            }
            key.changed(Replicate::Verbatim).publish(event);
            return Ok((Change::Changed, result));
        }
        Some(fields) => Some(fields.resized(len.unwrap_or_default())?),
        None => None,
    };
    if let Some(mut counters) = grown {
        let (_, result) = apply(counters.fields_mut())?;
        key.replace_fields(counters);
        key.changed(Replicate::Verbatim).publish(event);
        return Ok((Change::Changed, result));
    }
    let (len, replicate) = effects.creation()?;
    let mut counters = CountInt::new(len)?;
    let (_, result) = apply(counters.fields_mut())?;
    key.store(counters, replicate).publish(event);
    Ok((Change::Created, result))
}
