//! One mark or unmark, from the checks to the reply.

use std::convert::Infallible;
use std::ffi::CStr;

use countint_core::idset::IdSet;
use redis_module::raw;

use super::counter::{self, Counter, Fresh, Numbers};
use super::layout::Layout;
use super::xadd;
use crate::call::{Call, Outcome};
use crate::error::Error;
use crate::stats;
use crate::types::idset;

/// Whether to add or to remove, under which name.
pub struct Step {
    /// True for MARK.
    pub add: bool,
    /// The keyspace event.
    pub event: &'static CStr,
}

impl Step {
    /// The whole command.
    pub fn run(&self, call: &Call) -> Outcome {
        let layout = Layout::parse(call)?;
        let member = call.unsigned(Layout::MEMBER)?;
        let numbers = layout
            .count
            .as_ref()
            .map(|count| Numbers::read(call, count))
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
            counter::check_type(call, count)?;
        }
        if let Some(event) = &layout.event {
            xadd::check_type(call, event.stream)?;
        }
        let counter = match (&layout.count, &numbers) {
            (Some(at), Some(numbers)) => Some(Counter::look(call, at, numbers, !self.add)?),
            _ => None,
        };
        if there == self.add {
            reply(call, false, counter.and_then(|counter| counter.value));
            return Ok(());
        }
        self.change(call, &layout, member, maxlen, counter)
    }

    /// Appends the entry, then changes the set and the counter.
    fn change(
        &self,
        call: &Call,
        layout: &Layout,
        member: u64,
        maxlen: Option<i64>,
        counter: Option<Counter<'_>>,
    ) -> Outcome {
        // Memory that can be refused is asked for before anything changes. MARK has been refused as a whole by now.
        let grows = counter.as_ref().is_some_and(Counter::grows);
        if grows && !self.add && call.memory_is_full() {
            return Err(Error::MemoryFull);
        }
        let fresh = counter
            .as_ref()
            .map_or(Ok(Fresh::Nothing), |counter| counter.prepare(call))?;
        if let Some(event) = &layout.event
            && !xadd::append(call, event, maxlen)
        {
            return Ok(()); // the stream's error has been the reply, and nothing has changed
        }
        self.change_set(call, member);
        let delta = if self.add { 1 } else { -1 };
        let value = counter.and_then(|counter| counter.change(call, delta, self.event, fresh));
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
