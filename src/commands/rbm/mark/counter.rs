//! Where a step counts: a counter of an object, or of a row of a table. It is looked at first, then what may be refused
//! is made ready, and the change itself follows.

use countint_core::countint::{CountInt, Fields, MAX_LEN, Overflow};
use countint_core::counttab::CountTab;

use super::layout::{CountAt, Layout};
use crate::call::Call;
use crate::error::Error;
use crate::key::KeyMut;
use crate::keyspace::{Keyspace, Values};
use crate::replicate::Replicate;
use crate::types::counttab::TableObject;
use crate::{config, stats};

/// `COUNT counters-key [ROW id] idx [LEN n]`: where to count, with its numbers.
pub struct Place<'l> {
    at: &'l CountAt,
    id: Option<u64>,
    idx: usize,
    len: Option<usize>,
}

impl<'l> Place<'l> {
    /// Reads the numbers.
    pub fn read(call: &Call, at: &'l CountAt) -> Result<Place<'l>, Error> {
        Ok(Place {
            at,
            id: at.row.map(|row| call.unsigned(row)).transpose()?,
            idx: call.idx(at.idx)?,
            len: at.len.map(|len| call.length(len)).transpose()?,
        })
    }

    /// Refuses a key that holds anything but what is to be counted in.
    pub fn check_type(&self, keys: &Values) -> Result<(), Error> {
        match self.id {
            Some(_) => keys.table(Layout::COUNTER_AMONG_KEYS).map(drop),
            None => keys.fields(Layout::COUNTER_AMONG_KEYS).map(drop),
        }
    }

    /// Looks at the counter and decides what becomes of its object or table. What only removes creates nothing: no
    /// object, no table and no row.
    ///
    /// `before` is the length that the object or table had, or was to have, when this step looked first; 0 the first
    /// time. Where a hook has removed it since, it is created with that length, and where a hook has made it too short
    /// for the idx, it grows to that length again.
    pub fn look(&self, keys: &Values, removes: bool, before: usize) -> Result<Counter<'_>, Error> {
        let idx = self.idx;
        // How many counters there are, and what this one holds.
        let held = match self.id {
            Some(id) => keys.table(Layout::COUNTER_AMONG_KEYS)?.map(|object| {
                let table = object.table();
                // A counter that is yet to be added is 0, where there is such a row.
                let value = table
                    .get(id, idx)
                    .unwrap_or_else(|_| table.contains(id).then_some(0));
                (table.len(), value)
            }),
            None => keys
                .fields(Layout::COUNTER_AMONG_KEYS)?
                .map(|fields| (fields.len(), Some(fields.get(idx).unwrap_or(0)))),
        };
        let least = (before > 0).then(|| self.len.map_or(before, |len| len.max(before)));
        let (now, lengthen) = match held {
            Some((now, _)) => {
                let len = if idx < now {
                    self.len
                } else {
                    least.or(self.len)
                };
                (now, len.filter(|&len| len > now))
            }
            None if removes => (MAX_LEN, None),
            None => {
                let len = least.or(self.len).or_else(config::default_len);
                (0, Some(len.ok_or(Error::NoSuchKey)?))
            }
        };
        if idx >= lengthen.unwrap_or(now) {
            return Err(Error::IndexOutOfRange);
        }
        let value = held.and_then(|(_, value)| value);
        let idle = removes && value.is_none();
        Ok(Counter {
            place: self,
            value,
            len: held.map(|(now, _)| now),
            lengthen: lengthen.filter(|_| !idle),
        })
    }
}

/// A counter as it was looked at.
pub struct Counter<'p> {
    place: &'p Place<'p>,
    /// What it holds; None where its object, its table or its row is missing.
    pub value: Option<u64>,
    /// The length of its object or table; None where that is missing.
    len: Option<usize>,
    /// It is to have this many counters first: it is missing (and may be created), or shorter.
    lengthen: Option<usize>,
}

/// What counting has come to.
pub struct Counted {
    /// The counter's value after.
    pub value: u64,
    /// The argument that names its key, where that has changed and its event is yet to be published.
    pub changed: Option<usize>,
}

impl Counter<'_> {
    /// Whether the object or table is to be created or to grow.
    pub fn grows(&self) -> bool {
        self.lengthen.is_some()
    }

    /// The length that the object or table has, or is to have; 0 where it stays missing.
    pub fn final_len(&self) -> usize {
        self.lengthen.or(self.len).unwrap_or(0)
    }

    /// Makes the object that takes the place of a missing or shorter one. A table needs none: it grows, and begins, with next
    /// to no memory.
    pub fn prepare(&self, keys: &Values) -> Result<Option<CountInt>, Error> {
        let (None, Some(len)) = (self.place.id, self.lengthen) else {
            return Ok(None);
        };
        Ok(Some(match keys.fields(Layout::COUNTER_AMONG_KEYS)? {
            Some(fields) => fields.resized(len)?,
            None => CountInt::new(len)?,
        }))
    }

    /// Adds `delta`, 1 or -1, with `fresh` in its place where one was prepared, and gives the value after; None where there
    /// is nothing to take it off. The event is yet to be published.
    ///
    /// It cannot fail while the key holds what was looked at.
    pub fn change(
        &self,
        keys: &mut Keyspace,
        delta: i64,
        fresh: Option<CountInt>,
    ) -> Result<Option<Counted>, Error> {
        if delta < 0 && self.value.is_none() {
            return Ok(None);
        }
        let key = keys.write(self.place.at.key);
        let (value, changed) = match self.place.id {
            Some(id) => self.change_row(key, id, delta)?,
            None => self.change_fields(key, delta, fresh)?,
        };
        Ok(Some(Counted {
            value,
            changed: changed.then_some(self.place.at.key),
        }))
    }

    fn change_fields(
        &self,
        mut key: KeyMut,
        delta: i64,
        fresh: Option<CountInt>,
    ) -> Result<(u64, bool), Error> {
        let incr = |fields: &mut Fields| fields.incr(self.place.idx, delta, Overflow::Saturate);
        let (call, replicate) = (key.call(), self.replicate(delta));
        let step = if let Some(mut object) = fresh {
            let step = incr(object.fields_mut())?;
            if key.fields()?.is_some() {
                key.replace_counters(object);
                key.changed(replicate).publish_later();
            } else {
                key.store_counters(object, replicate).publish_later();
            }
            step
        } else {
            let fields = key.fields_mut()?.ok_or(Error::NoSuchKey)?;
            call.begin();
            let step = incr(fields)?;
            if step.new != step.old {
                key.changed(replicate).publish_later();
            }
            step
        };
        stats::saturated(u64::from(step.saturated));
        Ok((step.new, self.grows() || step.new != step.old))
    }

    fn change_row(&self, mut key: KeyMut, id: u64, delta: i64) -> Result<(u64, bool), Error> {
        let len = self.lengthen.unwrap_or(0);
        let incr = |table: &mut CountTab| table.incr(id, self.place.idx, delta, Overflow::Saturate);
        let (call, replicate) = (key.call(), self.replicate(delta));
        let step = if let Some(object) = key.table_mut()? {
            call.begin();
            let done = object.change(|table| table.at_least(len, incr))?;
            if self.grows() || done.step.new != done.step.old {
                key.changed(replicate).publish_later();
            }
            done.step
        } else {
            let mut done = None;
            let object = TableObject::build(|| {
                let mut table = CountTab::new(len)?;
                done = Some(incr(&mut table)?);
                Ok::<_, Error>(table)
            })?;
            key.store_table(object, replicate).publish_later();
            done.ok_or(Error::Refused)?.step
        };
        stats::saturated(u64::from(step.saturated));
        Ok((step.new, self.grows() || step.new != step.old))
    }

    fn replicate(&self, delta: i64) -> Replicate {
        let &CountAt { key, row, idx, .. } = self.place.at;
        Replicate::Increment {
            key,
            row,
            idx,
            delta,
            len: self.lengthen,
        }
    }
}
