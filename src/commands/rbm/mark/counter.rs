//! Where a step counts: a counter of an object, or of a row of a table. It is looked at first, then what may be refused
//! is made ready, and the change itself cannot fail.

use std::ffi::CStr;

use countint_core::countint::{CountInt, MAX_LEN, Overflow};
use countint_core::counttab::CountTab;
use redis_module::raw;

use super::layout::CountAt;
use crate::call::Call;
use crate::error::Error;
use crate::types::counttab::TableObject;
use crate::{config, stats};

/// The numbers of `COUNT counters-key [ROW id] idx [LEN n]`.
pub struct Numbers {
    id: Option<u64>,
    idx: usize,
    len: Option<usize>,
}

impl Numbers {
    /// Reads them.
    pub fn read(call: &Call, at: &CountAt) -> Result<Numbers, Error> {
        Ok(Numbers {
            id: at.row.map(|row| call.unsigned(row)).transpose()?,
            idx: call.idx(at.idx)?,
            len: at.len.map(|len| call.length(len)).transpose()?,
        })
    }
}

/// Refuses a key that holds anything but what is to be counted in.
pub fn check_type(call: &Call, at: &CountAt) -> Result<(), Error> {
    let key = call.read(at.key);
    match at.row {
        Some(_) => key.table().map(drop),
        None => key.fields().map(drop),
    }
}

/// A counter as checked before anything changes.
pub struct Counter<'l> {
    at: &'l CountAt,
    id: Option<u64>,
    idx: usize,
    /// What it holds; None where its object, its table or its row is missing.
    pub value: Option<u64>,
    /// Whether there is an object or a table.
    exists: bool,
    /// It is to have this many counters first: it is missing (and may be created), or shorter.
    lengthen: Option<usize>,
}

/// What takes the place of an object that is missing or shorter, or of a table that is missing.
pub enum Fresh {
    /// Nothing has to.
    Nothing,
    /// An object, long enough.
    Counters(CountInt),
    /// A table without rows.
    Table(Box<TableObject>),
}

impl<'l> Counter<'l> {
    /// Looks at the counter and decides what becomes of its object or table. What only removes creates nothing: no
    /// object, no table and no row.
    pub fn look(
        call: &Call,
        at: &'l CountAt,
        numbers: &Numbers,
        removes: bool,
    ) -> Result<Counter<'l>, Error> {
        let &Numbers { id, idx, len } = numbers;
        let key = call.read(at.key);
        // How many counters there are, and what this one holds.
        let held = match id {
            Some(id) => key.table()?.map(|object| {
                let table = object.table();
                // A counter that is yet to be added is 0, where there is such a row.
                let value = table
                    .get(id, idx)
                    .unwrap_or_else(|_| table.contains(id).then_some(0));
                (table.len(), value)
            }),
            None => key
                .fields()?
                .map(|fields| (fields.len(), Some(fields.get(idx).unwrap_or(0)))),
        };
        let (now, lengthen) = match held {
            Some((now, _)) => (now, len.filter(|&len| len > now)),
            None if removes => (MAX_LEN, None),
            None => (
                0,
                Some(len.or_else(config::default_len).ok_or(Error::NoSuchKey)?),
            ),
        };
        if idx >= lengthen.unwrap_or(now) {
            return Err(Error::IndexOutOfRange);
        }
        let value = held.and_then(|(_, value)| value);
        let idle = removes && value.is_none();
        Ok(Counter {
            at,
            id,
            idx,
            value,
            exists: held.is_some(),
            lengthen: lengthen.filter(|_| !idle),
        })
    }

    /// Whether the object or table is to be created or to grow.
    pub fn grows(&self) -> bool {
        self.lengthen.is_some()
    }

    /// Makes what takes the place of a missing or shorter one.
    pub fn prepare(&self, call: &Call) -> Result<Fresh, Error> {
        let Some(len) = self.lengthen else {
            return Ok(Fresh::Nothing);
        };
        if self.id.is_some() {
            return Ok(match self.exists {
                true => Fresh::Nothing, // a table grows in O(1)
                false => Fresh::Table(TableObject::build(|| CountTab::new(len))?),
            });
        }
        Ok(Fresh::Counters(match call.read(self.at.key).fields()? {
            Some(fields) => fields.resized(len)?,
            None => CountInt::new(len)?,
        }))
    }

    /// Adds `delta`, 1 or -1, after putting `fresh` in its place, and gives the value after; None where there is nothing
    /// to take it off.
    pub fn change(&self, call: &Call, delta: i64, event: &CStr, fresh: Fresh) -> Option<u64> {
        if delta < 0 && self.value.is_none() {
            return None;
        }
        let mut key = call.write(self.at.key);
        match fresh {
            Fresh::Nothing => {}
            Fresh::Counters(object) if self.exists => key.replace_counters(object),
            Fresh::Counters(object) => key.store_counters(object),
            Fresh::Table(table) => key.store_table(table),
        }
        call.begin();
        let step = match self.id {
            Some(id) => {
                let object = key.table_mut().expect("the type was checked before")?;
                let len = self.lengthen.unwrap_or(0);
                let add =
                    |table: &mut CountTab| table.incr(id, self.idx, delta, Overflow::Saturate);
                object
                    .change(|table| table.at_least(len, add))
                    .map(|done| done.step)
            }
            None => {
                let fields = key.fields_mut().expect("the type was checked before")?;
                fields.incr(self.idx, delta, Overflow::Saturate)
            }
        };
        let step = step.expect("the idx was checked before");
        stats::saturated(u64::from(step.saturated));
        if self.grows() || step.new != step.old {
            call.signal(self.at.key);
            self.replicate(call, delta);
            call.notify(raw::REDISMODULE_NOTIFY_MODULE, event, self.at.key);
        }
        Some(step.new)
    }

    fn replicate(&self, call: &Call, delta: i64) {
        let &CountAt { key, row, idx, .. } = self.at;
        match row {
            Some(id) => {
                call.replicate_increment(c"CTAB.INCRBY", [key, id, idx], delta, self.lengthen)
            }
            None => call.replicate_increment(c"CINT.INCRBY", [key, idx], delta, self.lengthen),
        }
    }
}
