//! Writing the rows of a table: creating a missing table, adding columns, and publishing the change.

use countint_core::counttab::{CountTab, RowIncrement};

use crate::commands::shared::buffers;
use crate::commands::shared::creation::WriteEffects;
use crate::error::Error;
use crate::scratch::Scratch;
use crate::server::{Call, KeyMut, Replicate};
use crate::types::counttab::TableObject;

/// Changes the table at a key with `apply`, and publishes and replicates the change, if any.
///
/// Shorter rows first grow to `effects.len` counters. A missing table is created with rows of that length, or of
/// `countint.default-len`. `apply` changes all or nothing, and returns whether it changed anything. If it fails, the table
/// is neither created nor grown.
#[inline]
pub fn write<R>(
    mut key: KeyMut,
    effects: WriteEffects<impl FnOnce(usize) -> Replicate<'static>>,
    apply: impl FnOnce(&mut CountTab) -> Result<(bool, R), Error>,
) -> Result<R, Error> {
    let (event, len) = (effects.event, effects.len);
    let call = key.call();
    if let Some(object) = key.table_mut()? {
        call.begin_effects();
        let before = object.table().len();
        let (changed, result) = object.change(|table| table.at_least(len.unwrap_or(0), apply))?;
        if changed || object.table().len() != before {
            key.changed(Replicate::Verbatim).publish(event);
        }
        return Ok(result);
    }
    let (len, replicate) = effects.creation()?;
    let mut result = None;
    let object = TableObject::build(|| {
        let mut table = CountTab::new(len)?;
        result = Some(apply(&mut table)?.1);
        Ok::<_, Error>(table)
    })?;
    let result = result.ok_or(Error::Refused)?;
    key.store(object, replicate).publish(event);
    Ok(result)
}

/// Parses increments `id idx delta`, which begin at the arguments `triples`.
pub fn row_increments(
    call: &Call,
    triples: impl Iterator<Item = usize>,
) -> Result<Scratch<RowIncrement>, Error> {
    let mut increments = buffers::row_increments();
    for i in triples {
        increments.push(RowIncrement {
            id: call.unsigned(i)?,
            idx: call.idx(i + 1)?,
            delta: call.int(i + 2)?,
        });
    }
    Ok(increments)
}
