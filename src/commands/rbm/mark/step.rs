//! One mark or unmark, from the checks to the reply.
//!
//! Hooks of other modules can run, and write to any of the keys, at three points: when keys are first touched, when the
//! entry is appended, and when a new set is stored. After each of them the step looks at the keys again. What is published
//! of the set and the counter comes when both have changed.

use std::convert::Infallible;
use std::ffi::CStr;

use countint_core::countint::CountInt;
use countint_core::idset::IdSet;
use redis_module::raw;

use super::counter::{Counted, Counter, Place};
use super::layout::Layout;
use super::xadd;
use crate::call::{Call, Outcome};
use crate::error::Error;
use crate::keyspace::{Keyspace, Values};
use crate::replicate::Replicate;
use crate::stats;
use crate::types::idset;

/// What to do, under which name.
pub struct Step<'s> {
    /// True for MARK, which adds; UNMARK removes.
    pub add: bool,
    /// The keyspace event.
    pub event: &'static CStr,
    layout: &'s Layout,
    member: u64,
    place: Option<Place<'s>>,
}

/// What a look at the keys has come to.
enum Plan<'p> {
    /// The member is there already (or is not): nothing changes. The counter's value.
    Nothing(Option<u64>),
    /// The set changes, and this counter, which an object that was made ready may have to replace first.
    Change(Option<Counter<'p>>, Option<CountInt>),
}

/// What a change of the set has come to.
enum SetChange {
    /// In place.
    Changed,
    /// The set is new: hooks of `new` have run.
    Created,
    /// The last member is gone, and the key with it.
    Deleted,
}

/// A set and a counter that have changed.
struct Done {
    set: SetChange,
    counted: Option<Counted>,
}

/// The whole command.
pub fn run(call: &Call, keys: &mut Keyspace, add: bool, event: &'static CStr) -> Outcome {
    let layout = Layout::parse(call)?;
    let member = call.unsigned(Layout::MEMBER)?;
    let place = layout
        .count
        .as_ref()
        .map(|count| Place::read(call, count))
        .transpose()?;
    let maxlen = layout
        .event
        .as_ref()
        .and_then(|event| event.maxlen)
        .map(|at| maxlen(call, at))
        .transpose()?;
    keys_differ(call, &layout)?;
    let step = Step {
        add,
        event,
        layout: &layout,
        member,
        place,
    };
    let plan = step.plan(&keys.values(layout.keys()), 0)?;
    match plan {
        Plan::Nothing(value) => reply(call, false, value),
        Plan::Change(counter, fresh) => step.change(call, keys, maxlen, counter, fresh)?,
    }
    Ok(())
}

impl Step<'_> {
    /// Looks at the keys and decides. Types come before existence and indexes, and all of them before what any key holds
    /// matters. Memory that can be refused is asked for here, before anything changes.
    ///
    /// `before` is the counter's length when this step looked before.
    fn plan(&self, values: &Values, before: usize) -> Result<Plan<'_>, Error> {
        let there = values
            .set(Layout::SET_AMONG_KEYS)?
            .is_some_and(|set| set.contains(self.member));
        if let Some(place) = &self.place {
            place.check_type(values)?;
        }
        // The stream is looked at before the entry is appended only.
        if self.layout.event.is_some() && values.len() == self.layout.keys().count() {
            match values.kind(values.len() - 1) {
                raw::REDISMODULE_KEYTYPE_EMPTY | raw::REDISMODULE_KEYTYPE_STREAM => {}
                _ => return Err(Error::WrongType),
            }
        }
        let counter = self
            .place
            .as_ref()
            .map(|place| place.look(values, !self.add, before))
            .transpose()?;
        if there == self.add {
            return Ok(Plan::Nothing(counter.and_then(|counter| counter.value)));
        }
        let fresh = match &counter {
            Some(counter) => counter.prepare(values)?,
            None => None,
        };
        Ok(Plan::Change(counter, fresh))
    }

    /// Appends the entry, then changes the set and the counter, and replies. Where they cannot change any more after
    /// that, the entry is removed.
    fn change(
        &self,
        call: &Call,
        keys: &mut Keyspace,
        maxlen: Option<i64>,
        counter: Option<Counter<'_>>,
        fresh: Option<CountInt>,
    ) -> Outcome {
        // MARK has been refused as a whole by now.
        let grows = counter.as_ref().is_some_and(Counter::grows);
        if grows && !self.add && call.memory_is_full() {
            return Err(Error::MemoryFull);
        }
        let Some(event) = &self.layout.event else {
            let done = self.apply(call, keys, counter, fresh)?;
            self.tell(call, keys, done);
            return Ok(());
        };
        let Some(entry) = xadd::append(call, keys, event) else {
            return Ok(()); // the stream's error has been the reply, and nothing has changed
        };
        // What was made ready is of no use after the hooks; it has shown that there is memory for it.
        drop(fresh);
        let before = counter.as_ref().map_or(0, Counter::final_len);
        let plan = self.plan(&self.values_now(keys), before);
        let refused = match plan {
            Ok(Plan::Change(counter, fresh)) => match self.apply(call, keys, counter, fresh) {
                Ok(done) => {
                    if let Some(maxlen) = maxlen {
                        entry.trim(call, keys, maxlen);
                    }
                    self.tell(call, keys, done);
                    return Ok(());
                }
                Err(error) => Err(error),
            },
            Ok(Plan::Nothing(value)) => Ok(value),
            Err(error) => Err(error),
        };
        entry.remove(call, keys);
        reply(call, false, refused?);
        Ok(())
    }

    /// The set and the counter as they are now.
    fn values_now<'k>(&self, keys: &'k mut Keyspace) -> Values<'k> {
        let count = 1 + usize::from(self.place.is_some());
        keys.values_now(self.layout.keys().take(count))
    }

    /// Changes the set and the counter, both or neither.
    fn apply(
        &self,
        call: &Call,
        keys: &mut Keyspace,
        counter: Option<Counter<'_>>,
        fresh: Option<CountInt>,
    ) -> Result<Done, Error> {
        let set = self.change_set(call, keys, self.add)?;
        let created = matches!(set, SetChange::Created);
        match self.count(keys, counter, fresh, created) {
            Ok(counted) => Ok(Done { set, counted }),
            Err(error) => {
                self.change_set(call, keys, !self.add)?;
                Err(error)
            }
        }
    }

    /// Publishes what has been done, and replies.
    fn tell(&self, call: &Call, keys: &mut Keyspace, done: Done) {
        if self.add {
            stats::marked()
        } else {
            stats::unmarked()
        }
        keys.publish(Layout::SET, self.event);
        if matches!(done.set, SetChange::Deleted) {
            keys.publish_del(Layout::SET);
        }
        if let Some(key) = done.counted.as_ref().and_then(|counted| counted.changed) {
            keys.publish(key, self.event);
        }
        reply(call, true, done.counted.map(|counted| counted.value));
    }

    /// Changes the counter. It is looked at again where hooks have run since the plan was made.
    fn count(
        &self,
        keys: &mut Keyspace,
        counter: Option<Counter<'_>>,
        fresh: Option<CountInt>,
        hooks_have_run: bool,
    ) -> Result<Option<Counted>, Error> {
        let delta = if self.add { 1 } else { -1 };
        match (counter, &self.place) {
            (Some(counter), Some(place)) if hooks_have_run => {
                let values = self.values_now(keys);
                place.check_type(&values)?;
                let counter = place.look(&values, !self.add, counter.final_len())?;
                let fresh = counter.prepare(&values)?;
                drop(values);
                counter.change(keys, delta, fresh)
            }
            (Some(counter), _) => counter.change(keys, delta, fresh),
            (None, _) => Ok(None),
        }
    }

    /// Adds the member to the set or removes it.
    fn change_set(&self, call: &Call, keys: &mut Keyspace, add: bool) -> Result<SetChange, Error> {
        let replicate = Replicate::Member {
            command: if add { c"RBM.ADD" } else { c"RBM.REM" },
            key: Layout::SET,
            member: Layout::MEMBER,
        };
        let mut key = keys.write(Layout::SET);
        let Some(mut held) = key.set_mut()? else {
            if add {
                let set = || Ok::<_, Infallible>([self.member].into_iter().collect::<IdSet>());
                let Ok(set) = idset::weighed(set);
                key.store_set(set, replicate).publish_later();
            }
            return Ok(SetChange::Created);
        };
        call.begin();
        held.change(|set| {
            if add {
                set.insert(self.member)
            } else {
                set.remove(self.member)
            }
        });
        if held.get().is_empty() {
            key.delete(replicate).publish_later();
            return Ok(SetChange::Deleted);
        }
        key.changed(replicate).publish_later();
        Ok(SetChange::Changed)
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
