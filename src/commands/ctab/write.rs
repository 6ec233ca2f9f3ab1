//! What all writes of tables share: creating a missing one, giving it more columns, and changing rows, all of it or
//! nothing.

use countint_core::counttab::{CountTab, Op};

use crate::call::Call;
use crate::commands::cint::write::Told;
use crate::error::Error;
use crate::key::KeyMut;
use crate::replicate::Replicate;
use crate::scratch::{self, Scratch};
use crate::types::counttab::TableObject;

/// Changes the table at a key, after making its rows at least `told.len` counters long; a missing table gets rows of so
/// many counters, or the setting's number. Then tells the server, if anything has changed.
///
/// `apply` does the work, all of it or none, and tells whether it made a difference. When it fails, nothing has been
/// created or grown either.
#[inline]
pub fn write<R>(
    mut key: KeyMut,
    told: Told<impl FnOnce(usize) -> Replicate>,
    apply: impl FnOnce(&mut CountTab) -> Result<(bool, R), Error>,
) -> Result<R, Error> {
    let (event, len) = (told.event, told.len);
    let call = key.call();
    if let Some(object) = key.table_mut()? {
        call.begin();
        let before = object.table().len();
        let (changed, result) = object.change(|table| table.at_least(len.unwrap_or(0), apply))?;
        if changed || object.table().len() != before {
            key.changed(Replicate::Verbatim).publish(event);
        }
        return Ok(result);
    }
    let (len, replicate) = told.creation()?;
    let mut result = None;
    let object = TableObject::build(|| {
        let mut table = CountTab::new(len)?;
        result = Some(apply(&mut table)?.1);
        Ok::<_, Error>(table)
    })?;
    let result = result.ok_or(Error::Refused)?;
    key.store_table(object, replicate).publish(event);
    Ok(result)
}

/// The arguments from `first` on as increments `id idx delta`; there must be one at least, and each must be whole.
/// Their numbers are yet to be read: syntax is checked before.
pub fn triples(call: &Call, first: usize) -> Result<impl Iterator<Item = usize> + use<>, Error> {
    let rest = call.len() - first;
    if rest == 0 || !rest.is_multiple_of(3) {
        Err(Error::Arity)
    } else {
        Ok((first..call.len()).step_by(3))
    }
}

/// Reads increments of several rows.
pub fn ops(call: &Call, triples: impl Iterator<Item = usize>) -> Result<Scratch<Op>, Error> {
    let mut ops = scratch::ops();
    for i in triples {
        ops.push(Op {
            id: call.unsigned(i)?,
            idx: call.idx(i + 1)?,
            delta: call.int(i + 2)?,
        });
    }
    Ok(ops)
}
