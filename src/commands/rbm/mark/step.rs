//! One mark or unmark, from the checks to the reply.

use std::convert::Infallible;
use std::ffi::CStr;

use countint_core::countint::{CountInt, MAX_LEN, Overflow};
use countint_core::idset::IdSet;
use redis_module::raw;

use super::layout::{CountAt, Layout};
use super::xadd;
use crate::call::{Call, Outcome};
use crate::error::Error;
use crate::types::idset;
use crate::{config, stats};

/// Whether to add or to remove, under which name.
pub struct Step {
    /// True for MARK.
    pub add: bool,
    /// The keyspace event.
    pub event: &'static CStr,
}

/// The counter of a step, as checked before anything changes.
struct Counter {
    key: usize,
    idx: usize,
    /// What it holds; None where its object is missing.
    value: Option<u64>,
    /// The object is to have this many fields first: it is missing (and may be created), or shorter.
    lengthen: Option<usize>,
}

impl Step {
    /// The whole command.
    pub fn run(&self, call: &Call) -> Outcome {
        let layout = Layout::parse(call)?;
        let member = call.unsigned(Layout::MEMBER)?;
        let idx = layout
            .count
            .as_ref()
            .map(|count| call.idx(count.idx()))
            .transpose()?;
        let len = layout
            .count
            .as_ref()
            .and_then(|count| count.len)
            .map(|at| call.length(at))
            .transpose()?;
        let maxlen = layout
            .event
            .as_ref()
            .and_then(|event| event.maxlen)
            .map(|at| maxlen(call, at))
            .transpose()?;
        keys_differ(call, &layout)?;

        // Types come before existence and indexes, and all of them before what any key holds matters.
        let there = call
            .read(Layout::SET)
            .set()?
            .is_some_and(|set| set.contains(member));
        if let Some(count) = &layout.count {
            call.read(count.key).fields()?;
        }
        if let Some(event) = &layout.event {
            xadd::check_type(call, event.stream)?;
        }
        let counter = match (&layout.count, idx) {
            (Some(count), Some(idx)) => Some(self.counter(call, count, idx, len)?),
            _ => None,
        };
        if there == self.add {
            reply(call, false, counter.and_then(|counter| counter.value));
            return Ok(());
        }
        self.change(call, &layout, member, maxlen, counter)
    }

    /// Looks at the counter and decides what becomes of its object.
    fn counter(
        &self,
        call: &Call,
        count: &CountAt,
        idx: usize,
        len: Option<usize>,
    ) -> Result<Counter, Error> {
        let key = call.read(count.key);
        let fields = key.fields()?;
        let (now, lengthen) = match fields {
            Some(fields) => (fields.len(), len.filter(|&len| len > fields.len())),
            // UNMARK takes nothing off a counter that is not there, and does not create it.
            None if !self.add => (MAX_LEN, None),
            None => (
                0,
                Some(len.or_else(config::default_len).ok_or(Error::NoSuchKey)?),
            ),
        };
        if idx >= lengthen.unwrap_or(now) {
            return Err(Error::IndexOutOfRange);
        }
        let value = fields.map(|fields| fields.get(idx).unwrap_or(0));
        Ok(Counter {
            key: count.key,
            idx,
            value,
            lengthen,
        })
    }

    /// Appends the entry, then changes the set and the counter.
    fn change(
        &self,
        call: &Call,
        layout: &Layout,
        member: u64,
        maxlen: Option<i64>,
        counter: Option<Counter>,
    ) -> Outcome {
        // Memory that can be refused is asked for before anything changes. MARK has been refused as a whole by now.
        let grows = counter.as_ref().is_some_and(|c| c.lengthen.is_some());
        if grows && !self.add && call.memory_is_full() {
            return Err(Error::MemoryFull);
        }
        let longer = counter
            .as_ref()
            .map(|counter| longer(call, counter))
            .transpose()?
            .flatten();
        if let Some(event) = &layout.event
            && !xadd::append(call, event, maxlen)
        {
            return Ok(()); // the stream's error has been the reply, and nothing has changed
        }
        self.change_set(call, member);
        let value = counter.and_then(|counter| self.change_counter(call, &counter, longer));
        if self.add {
            stats::marked()
        } else {
            stats::unmarked()
        }
        reply(call, true, value);
        Ok(())
    }

    fn change_set(&self, call: &Call, member: u64) {
        let mut key = call.write(Layout::SET);
        let mut emptied = false;
        match key.set_mut().expect("the type was checked before") {
            Some(mut held) => {
                call.begin();
                held.change(|set| {
                    if self.add {
                        set.insert(member)
                    } else {
                        set.remove(member)
                    }
                });
                emptied = held.get().is_empty();
            }
            None => {
                let set = || Ok::<_, Infallible>([member].into_iter().collect::<IdSet>());
                let Ok(set) = idset::weighed(set);
                key.store_set(set);
            }
        }
        if emptied {
            key.delete();
        }
        call.signal(Layout::SET);
        call.replicate_member(
            if self.add { c"RBM.ADD" } else { c"RBM.REM" },
            Layout::SET,
            Layout::MEMBER,
        );
        call.notify(raw::REDISMODULE_NOTIFY_MODULE, self.event, Layout::SET);
        if emptied {
            call.notify(raw::REDISMODULE_NOTIFY_GENERIC, c"del", Layout::SET);
        }
    }

    /// Adds or takes 1, in an object that is long enough by now, and gives the value after.
    fn change_counter(
        &self,
        call: &Call,
        counter: &Counter,
        longer: Option<CountInt>,
    ) -> Option<u64> {
        let delta = if self.add { 1 } else { -1 };
        let mut key = call.write(counter.key);
        let lengthened = longer.is_some();
        match longer {
            Some(object) if counter.value.is_some() => key.replace_counters(object),
            Some(object) => key.store_counters(object),
            None => {}
        }
        let fields = key.fields_mut().expect("the type was checked before")?;
        call.begin();
        let step = fields
            .incr(counter.idx, delta, Overflow::Saturate)
            .expect("the idx was checked before");
        stats::saturated(u64::from(step.saturated));
        if lengthened || step.new != step.old {
            call.signal(counter.key);
            call.replicate_increment(counter.key, counter.idx, delta, counter.lengthen);
            call.notify(raw::REDISMODULE_NOTIFY_MODULE, self.event, counter.key);
        }
        Some(step.new)
    }
}

/// The object that takes the place of a missing or shorter one.
fn longer(call: &Call, counter: &Counter) -> Result<Option<CountInt>, Error> {
    let Some(len) = counter.lengthen else {
        return Ok(None);
    };
    let key = call.read(counter.key);
    Ok(Some(match key.fields()? {
        Some(fields) => fields.resized(len)?,
        None => CountInt::new(len)?,
    }))
}

fn keys_differ(call: &Call, layout: &Layout) -> Result<(), Error> {
    let keys: Vec<&[u8]> = layout.keys().map(|at| call.arg(at)).collect();
    let same = keys
        .iter()
        .enumerate()
        .any(|(i, key)| keys[..i].contains(key));
    if same { Err(Error::SameKeys) } else { Ok(()) }
}

fn maxlen(call: &Call, at: usize) -> Result<i64, Error> {
    call.int(at)
        .ok()
        .filter(|&n| n >= 0)
        .ok_or(Error::NotAnInteger)
}

/// `[changed, value]`
fn reply(call: &Call, changed: bool, value: Option<u64>) {
    call.reply_array(2);
    call.reply_int(u64::from(changed));
    match value {
        Some(value) => call.reply_int(value),
        None => call.reply_null(),
    }
}
