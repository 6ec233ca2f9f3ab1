//! Executes one MARK or UNMARK: validates, plans, changes, publishes and replies.
//!
//! Hooks of other modules may run, and write to any of the keys, at three points: when the keys are first opened, when
//! the entry is appended, and when a new set is stored. After each of them the keys are read again. The events of the set
//! and the counter are published after both have changed.

use std::convert::Infallible;
use std::ffi::CStr;

use countint_core::countint::CountInt;
use countint_core::idset::IdSet;

use super::counter::{Counter, CounterChange, CounterRef};
use super::layout::{EventArgs, Layout};
use crate::error::Error;
use crate::server::stream::StreamEntry;
use crate::server::{Call, KeyType, Keyspace, Outcome, Replicate, Values};
use crate::stats;
use crate::types::idset;

/// A call of MARK or UNMARK, with its arguments parsed.
struct Operation<'s> {
    /// True for MARK, which adds; false for UNMARK, which removes.
    add: bool,
    /// The keyspace event.
    event: &'static CStr,
    layout: &'s Layout,
    member: u64,
    counter: Option<CounterRef<'s>>,
    /// The number after MAXLEN.
    maxlen: Option<i64>,
}

/// The changes that the operation makes, given the current values.
enum Plan<'p> {
    /// Nothing changes. Contains the counter's value.
    Nothing(Option<u64>),
    /// The set and the counter change.
    Change(Option<CounterPlan<'p>>),
}

/// A counter to change.
struct CounterPlan<'p> {
    counter: Counter<'p>,
    /// The object that replaces a missing or shorter one.
    prepared: Option<CountInt>,
    /// The cardinality of the set after the change: the value at which a missing counter starts.
    cardinality: u64,
}

/// How the set has changed.
enum SetChange {
    /// In place.
    Changed,
    /// A new set was stored, which has run hooks of `new`.
    Created,
    /// The last member was removed, and the key deleted.
    Deleted,
}

/// The changes of the set and the counter.
struct Applied {
    set: SetChange,
    counter: Option<CounterChange>,
}

/// Runs the command.
pub fn run(call: &Call, keys: &mut Keyspace, add: bool, event: &'static CStr) -> Outcome {
    let layout = Layout::parse(call)?;
    let member = call.unsigned(Layout::MEMBER)?;
    let counter = layout
        .count
        .as_ref()
        .map(|count| CounterRef::parse(call, count))
        .transpose()?;
    let maxlen = layout
        .event
        .as_ref()
        .and_then(|event| event.maxlen)
        .map(|at| parse_maxlen(call, at))
        .transpose()?;
    check_keys_differ(call, &layout)?;
    let operation = Operation {
        add,
        event,
        layout: &layout,
        member,
        counter,
        maxlen,
    };
    let plan = operation.plan(&keys.values(layout.keys()), 0)?;
    match plan {
        Plan::Nothing(value) => reply(call, false, value),
        Plan::Change(counter) => operation.execute(call, keys, counter)?,
    }
    Ok(())
}

impl Operation<'_> {
    /// Reads the keys and decides what to do. Types are checked before existence and indexes, whether or not the member
    /// is in the set. Memory is allocated here, before anything changes.
    ///
    /// `previous_len` is the counter's [`Counter::final_len`] of the previous plan, or 0.
    fn plan(&self, values: &Values, previous_len: usize) -> Result<Plan<'_>, Error> {
        let set = values.set(Layout::SET_KEY)?;
        let is_member = set.as_deref().is_some_and(|set| set.contains(self.member));
        let members = set.as_deref().map_or(0, IdSet::len);
        if let Some(counter) = &self.counter {
            counter.check_type(values)?;
        }
        // After the entry has been appended, the stream is not among the values.
        if self.layout.event.is_some() && values.len() == self.layout.keys().count() {
            match values.key_type(values.len() - 1) {
                KeyType::Missing | KeyType::Stream => {}
                _ => return Err(Error::WrongType),
            }
        }
        let counter = self
            .counter
            .as_ref()
            .map(|counter| counter.read(values, !self.add, previous_len))
            .transpose()?;
        if let (Some(target), Some(counter)) = (&self.counter, &counter) {
            target.verify(counter, members)?;
        }
        if is_member == self.add {
            return Ok(Plan::Nothing(counter.and_then(|counter| counter.value)));
        }
        let cardinality = members + u64::from(self.add);
        let counter = counter.map(|counter| CounterPlan::new(counter, values, cardinality));
        Ok(Plan::Change(counter.transpose()?))
    }

    /// Makes the changes and replies.
    fn execute(
        &self,
        call: &Call,
        keys: &mut Keyspace,
        counter: Option<CounterPlan<'_>>,
    ) -> Outcome {
        // UNMARK is not `deny-oom`: it frees memory unless a counter grows. The server has refused a MARK already.
        let grows = counter.as_ref().is_some_and(|plan| plan.counter.grows());
        if grows && !self.add && call.is_memory_full() {
            return Err(Error::MemoryFull);
        }
        match &self.layout.event {
            Some(event) => self.execute_with_event(call, keys, counter, event),
            None => {
                let applied = self.apply(call, keys, counter)?;
                self.publish(call, keys, applied);
                Ok(())
            }
        }
    }

    /// Appends the entry, changes the set and the counter, and replies. If they can no longer change after the entry was
    /// appended, the entry is deleted.
    fn execute_with_event(
        &self,
        call: &Call,
        keys: &mut Keyspace,
        counter: Option<CounterPlan<'_>>,
        event: &EventArgs,
    ) -> Outcome {
        let id = if event.seq { c"0-*" } else { c"*" };
        let Some(entry) = StreamEntry::append(keys, event.stream, id, event.fields) else {
            return Ok(()); // the error of XADD is the reply
        };
        // Hooks have run, so a prepared object may be stale. Its allocation has shown that there is enough memory.
        let previous_len = counter.map_or(0, |plan| plan.counter.final_len());
        let result = match self.plan(&self.values_again(keys), previous_len) {
            Ok(Plan::Change(counter)) => match self.apply(call, keys, counter) {
                Ok(applied) => {
                    if let Some(maxlen) = self.maxlen {
                        entry.trim(keys, maxlen);
                    }
                    self.publish(call, keys, applied);
                    return Ok(());
                }
                Err(error) => Err(error),
            },
            Ok(Plan::Nothing(value)) => Ok(value),
            Err(error) => Err(error),
        };
        entry.delete(keys);
        reply(call, false, result?);
        Ok(())
    }

    /// Reads the set and the counter again.
    fn values_again<'k>(&self, keys: &'k mut Keyspace) -> Values<'k> {
        let count = 1 + usize::from(self.counter.is_some());
        keys.values_again(self.layout.keys().take(count))
    }

    /// Changes the set and the counter, both or neither.
    fn apply(
        &self,
        call: &Call,
        keys: &mut Keyspace,
        counter: Option<CounterPlan<'_>>,
    ) -> Result<Applied, Error> {
        let set = self.change_set(call, keys, self.add)?;
        let hooks_have_run = matches!(set, SetChange::Created);
        match self.change_counter(keys, counter, hooks_have_run) {
            Ok(counter) => Ok(Applied { set, counter }),
            Err(error) => {
                self.change_set(call, keys, !self.add)?;
                Err(error)
            }
        }
    }

    /// Publishes the events of the changes, and replies.
    fn publish(&self, call: &Call, keys: &mut Keyspace, applied: Applied) {
        if self.add {
            stats::marked()
        } else {
            stats::unmarked()
        }
        keys.publish(Layout::SET, self.event);
        if matches!(applied.set, SetChange::Deleted) {
            keys.publish_del(Layout::SET);
        }
        if let Some(key) = applied.counter.as_ref().and_then(|c| c.changed_key) {
            keys.publish(key, self.event);
        }
        reply(call, true, applied.counter.map(|change| change.value));
    }

    /// Changes the counter. If hooks have run since the plan was made, the counter is read again.
    fn change_counter(
        &self,
        keys: &mut Keyspace,
        plan: Option<CounterPlan<'_>>,
        hooks_have_run: bool,
    ) -> Result<Option<CounterChange>, Error> {
        let Some(mut plan) = plan else {
            return Ok(None);
        };
        if let (Some(counter), true) = (&self.counter, hooks_have_run) {
            let values = self.values_again(keys);
            counter.check_type(&values)?;
            let counter = counter.read(&values, !self.add, plan.counter.final_len())?;
            let set = values.set(Layout::SET_KEY)?;
            let cardinality = set.as_deref().map_or(1, IdSet::len);
            plan = CounterPlan::new(counter, &values, cardinality)?;
        }
        let delta = match (self.add, plan.counter.value) {
            (true, Some(_)) => 1,
            (true, None) => i64::try_from(plan.cardinality).unwrap_or(i64::MAX),
            (false, _) => -1,
        };
        plan.counter.change(keys, delta, plan.prepared)
    }

    /// Adds the member to the set, or removes it.
    fn change_set(&self, call: &Call, keys: &mut Keyspace, add: bool) -> Result<SetChange, Error> {
        let replicate = Replicate::Effect {
            command: if add { c"RBM.ADD" } else { c"RBM.REM" },
            args: [Some(Layout::SET), Some(Layout::MEMBER), None],
            number: None,
        };
        let mut key = keys.write(Layout::SET);
        let Some(mut set) = key.set_mut()? else {
            if add {
                let set = || Ok::<_, Infallible>([self.member].into_iter().collect::<IdSet>());
                let Ok(set) = idset::build(set);
                key.store(set, replicate).publish_later();
            }
            return Ok(SetChange::Created);
        };
        call.begin_effects();
        set.change(|set| {
            if add {
                set.insert(self.member)
            } else {
                set.remove(self.member)
            }
        });
        if set.is_empty() {
            key.delete(replicate).publish_later();
            return Ok(SetChange::Deleted);
        }
        key.changed(replicate).publish_later();
        Ok(SetChange::Changed)
    }
}

impl<'p> CounterPlan<'p> {
    fn new(counter: Counter<'p>, values: &Values, cardinality: u64) -> Result<Self, Error> {
        let prepared = counter.prepare(values)?;
        Ok(CounterPlan {
            counter,
            prepared,
            cardinality,
        })
    }
}

fn check_keys_differ(call: &Call, layout: &Layout) -> Result<(), Error> {
    let keys: Vec<&[u8]> = layout.keys().map(|at| call.arg(at)).collect();
    let repeated = keys
        .iter()
        .enumerate()
        .any(|(i, key)| keys[..i].contains(key));
    if repeated {
        Err(Error::SameKeys)
    } else {
        Ok(())
    }
}

fn parse_maxlen(call: &Call, at: usize) -> Result<i64, Error> {
    call.int(at)
        .ok()
        .filter(|&n| n >= 0)
        .ok_or(Error::NotAnInteger)
}

/// Replies `[changed, value]`.
fn reply(call: &Call, changed: bool, value: Option<u64>) {
    call.reply_array(2);
    call.reply_int(u64::from(changed));
    match value {
        Some(value) => call.reply_int(value),
        None => call.reply_null(),
    }
}
