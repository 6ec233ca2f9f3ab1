//! The counter that a mark changes: a field of an object, or of a row of a table.
//!
//! The counter is read first. Then allocations that can fail are made, and the change follows.

use countint_core::countint::{CountInt, Fields, MAX_LEN, Overflow};
use countint_core::counttab::CountTab;

use super::layout::{CountArgs, Layout};
use crate::commands::shared::creation::len_option;
use crate::error::Error;
use crate::server::{Call, KeyMut, Keyspace, Replicate, Values};
use crate::types::counttab::TableObject;
use crate::{config, stats};

/// `COUNT counters-key [ROW id] idx [LEN n] [VERIFY]`, with its numbers parsed.
pub struct CounterRef<'l> {
    args: &'l CountArgs,
    row: Option<u64>,
    idx: usize,
    len: Option<usize>,
}

impl<'l> CounterRef<'l> {
    /// Parses the numbers.
    pub fn parse(call: &Call, args: &'l CountArgs) -> Result<CounterRef<'l>, Error> {
        Ok(CounterRef {
            args,
            row: args.row.map(|row| call.unsigned(row)).transpose()?,
            idx: call.idx(args.idx)?,
            len: args.len.map(|len| call.length(len)).transpose()?,
        })
    }

    /// Checks, with VERIFY, that the counter is not 0 although the set has `members`.
    pub fn verify(&self, counter: &Counter, members: u64) -> Result<(), Error> {
        let is_zero = counter.value.unwrap_or(0) == 0;
        match self.args.verify && is_zero && members > 0 {
            true => Err(Error::NoCounter),
            false => Ok(()),
        }
    }

    /// Checks that the key holds an object, or a table if ROW is given, or is missing.
    pub fn check_type(&self, keys: &Values) -> Result<(), Error> {
        match self.row {
            Some(_) => keys.table(Layout::COUNTER_KEY).map(drop),
            None => keys.fields(Layout::COUNTER_KEY).map(drop),
        }
    }

    /// Reads the counter, and decides whether its object or table is created or grows. If `removing`, nothing is
    /// created: no object, table or row.
    ///
    /// `previous_len` is [`Counter::final_len`] of an earlier read in the same call, or 0. If a hook has deleted the
    /// object or table since, it is created with that length; if a hook has made it too short for the idx, it grows to
    /// that length.
    pub fn read(
        &self,
        keys: &Values,
        removing: bool,
        previous_len: usize,
    ) -> Result<Counter<'_>, Error> {
        let idx = self.idx;
        // The length, and the counter's value.
        let current = match self.row {
            Some(id) => keys.table(Layout::COUNTER_KEY)?.map(|object| {
                let table = object.table();
                // A column that the table does not have yet is 0 in an existing row.
                let value = table
                    .get(id, idx)
                    .unwrap_or_else(|_| table.contains(id).then_some(0));
                (table.len(), value)
            }),
            None => keys
                .fields(Layout::COUNTER_KEY)?
                .map(|fields| (fields.len(), Some(fields.get(idx).unwrap_or(0)))),
        };
        let restored_len =
            (previous_len > 0).then(|| self.len.map_or(previous_len, |len| len.max(previous_len)));
        let (len, new_len) = match current {
            Some((len, _)) => {
                let wanted = if idx < len {
                    self.len
                } else {
                    restored_len.or(self.len)
                };
                (len, wanted.filter(|&wanted| wanted > len))
            }
            None if removing => (MAX_LEN, None),
            None => {
                let wanted = restored_len.or(self.len).or_else(config::default_len);
                (0, Some(wanted.ok_or(Error::NoSuchKey)?))
            }
        };
        if idx >= new_len.unwrap_or(len) {
            return Err(Error::IndexOutOfRange);
        }
        let value = current.and_then(|(_, value)| value);
        let nothing_to_remove = removing && value.is_none();
        Ok(Counter {
            target: self,
            value,
            len: current.map(|(len, _)| len),
            new_len: new_len.filter(|_| !nothing_to_remove),
        })
    }
}

/// A counter that has been read.
pub struct Counter<'p> {
    target: &'p CounterRef<'p>,
    /// The value; None if the object, the table or the row is missing.
    pub value: Option<u64>,
    /// The length of the object or table; None if it is missing.
    len: Option<usize>,
    /// The length with which the object or table is created, or to which it grows.
    new_len: Option<usize>,
}

/// A changed counter.
pub struct CounterChange {
    /// The value after the change.
    pub value: u64,
    /// The argument that names the key, if the key has changed and its event is not published yet.
    pub changed_key: Option<usize>,
}

impl Counter<'_> {
    /// Whether the object or table is created or grows.
    pub fn grows(&self) -> bool {
        self.new_len.is_some()
    }

    /// The length of the object or table after the change; 0 if it stays missing.
    pub fn final_len(&self) -> usize {
        self.new_len.or(self.len).unwrap_or(0)
    }

    /// Allocates the object that replaces a missing or shorter one. A table needs none: it is created and grows with
    /// little memory.
    pub fn prepare(&self, keys: &Values) -> Result<Option<CountInt>, Error> {
        let (None, Some(len)) = (self.target.row, self.new_len) else {
            return Ok(None);
        };
        Ok(Some(match keys.fields(Layout::COUNTER_KEY)? {
            Some(fields) => fields.resized(len)?,
            None => CountInt::new(len)?,
        }))
    }

    /// Adds `delta` in the `prepared` object if there is one. None if there is no counter to decrement.
    ///
    /// It does not fail if the key has not changed since the counter was read.
    pub fn change(
        &self,
        keys: &mut Keyspace,
        delta: i64,
        prepared: Option<CountInt>,
    ) -> Result<Option<CounterChange>, Error> {
        if delta < 0 && self.value.is_none() {
            return Ok(None);
        }
        let key = keys.write(self.target.args.key);
        let (value, changed) = match self.target.row {
            Some(id) => self.change_row(key, id, delta)?,
            None => self.change_field(key, delta, prepared)?,
        };
        Ok(Some(CounterChange {
            value,
            changed_key: changed.then_some(self.target.args.key),
        }))
    }

    fn change_field(
        &self,
        mut key: KeyMut,
        delta: i64,
        prepared: Option<CountInt>,
    ) -> Result<(u64, bool), Error> {
        let incr = |fields: &mut Fields| fields.incr(self.target.idx, delta, Overflow::Saturate);
        let (call, replicate) = (key.call(), self.replicate(delta));
        let counter = if let Some(mut object) = prepared {
            let counter = incr(object.fields_mut())?;
            if key.fields()?.is_some() {
                key.replace_fields(object);
                key.changed(replicate).publish_later();
            } else {
                key.store(object, replicate).publish_later();
            }
            counter
        } else {
            let fields = key.fields_mut()?.ok_or(Error::NoSuchKey)?;
            call.begin_effects();
            let counter = incr(fields)?;
            if counter.new != counter.old {
                key.changed(replicate).publish_later();
            }
            counter
        };
        stats::saturated(u64::from(counter.saturated));
        Ok((counter.new, self.grows() || counter.new != counter.old))
    }

    fn change_row(&self, mut key: KeyMut, id: u64, delta: i64) -> Result<(u64, bool), Error> {
        let len = self.new_len.unwrap_or(0);
        let incr =
            |table: &mut CountTab| table.incr(id, self.target.idx, delta, Overflow::Saturate);
        let (call, replicate) = (key.call(), self.replicate(delta));
        let counter = if let Some(object) = key.table_mut()? {
            call.begin_effects();
            let result = object.change(|table| table.at_least(len, incr))?;
            if self.grows() || result.counter.new != result.counter.old {
                key.changed(replicate).publish_later();
            }
            result.counter
        } else {
            let mut result = None;
            let object = TableObject::build(|| {
                let mut table = CountTab::new(len)?;
                result = Some(incr(&mut table)?);
                Ok::<_, Error>(table)
            })?;
            key.store(object, replicate).publish_later();
            result.ok_or(Error::Refused)?.counter
        };
        stats::saturated(u64::from(counter.saturated));
        Ok((counter.new, self.grows() || counter.new != counter.old))
    }

    /// `CINT.INCRBY key idx delta [LEN n]`, or `CTAB.INCRBY key id idx delta [LEN n]`.
    fn replicate(&self, delta: i64) -> Replicate<'static> {
        let &CountArgs { key, row, idx, .. } = self.target.args;
        let (command, args) = match row {
            Some(row) => (c"CTAB.INCRBY", [Some(key), Some(row), Some(idx)]),
            None => (c"CINT.INCRBY", [Some(key), Some(idx), None]),
        };
        Replicate::Effect {
            command,
            args,
            more: &[],
            number: Some((delta, self.new_len.map(len_option))),
        }
    }
}
