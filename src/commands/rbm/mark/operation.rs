//! Executes one call: validates, plans, changes, publishes and replies. A call of MARK or UNMARK is one of MMARK or MUNMARK
//! with one member, but for the form of its reply and of its event.
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
use crate::commands::shared::buffers;
use crate::error::Error;
use crate::scratch::Scratch;
use crate::server::stream::StreamEntry;
use crate::server::{Call, KeyType, Keyspace, Outcome, Replicate, Values};
use crate::stats;
use crate::types::idset;

/// The field of the entry of MMARK and MUNMARK that has the changed members, separated by commas.
const MEMBERS: &CStr = c"members";

/// How often an entry is appended again because a hook on it has changed members of the call.
const MAX_APPENDS: usize = 8;

/// The command.
pub struct Variant {
    /// True for MARK and MMARK, which add; false for UNMARK and MUNMARK, which remove.
    pub add: bool,
    /// Whether a call can have several members.
    pub many: bool,
    /// The keyspace event.
    pub event: &'static CStr,
}

/// A call with its arguments parsed.
struct Operation<'s> {
    variant: &'s Variant,
    layout: &'s Layout,
    /// The members, in the order of the arguments.
    members: Scratch<u64>,
    counter: Option<CounterRef<'s>>,
    /// The number after MAXLEN.
    maxlen: Option<i64>,
}

/// The arguments of the members that change: each member once, in order.
type ChangedArgs = Scratch<usize>;

/// The changes that the operation makes, given the current values.
enum Plan<'p> {
    /// Nothing changes. Contains the counter's value.
    Nothing(Option<u64>),
    /// The set and the counter change.
    Change(ChangedArgs, Option<CounterPlan<'p>>),
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
pub fn run(call: &Call, keys: &mut Keyspace, variant: &Variant) -> Outcome {
    let layout = Layout::parse(call, variant.many)?;
    let members = call.ids_in(layout.members.clone())?;
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
        variant,
        layout: &layout,
        members,
        counter,
        maxlen,
    };
    let plan = operation.plan(&keys.values(layout.keys()), 0)?;
    match plan {
        Plan::Nothing(value) => operation.reply(call, &[], value),
        Plan::Change(changed, counter) => operation.execute(call, keys, changed, counter)?,
    }
    Ok(())
}

impl Operation<'_> {
    /// Reads the keys and decides what to do. Types are checked before existence and indexes, whether or not the members
    /// are in the set. Memory is allocated here, before anything changes.
    ///
    /// `previous_len` is the counter's [`Counter::final_len`] of the previous plan, or 0.
    fn plan(&self, values: &Values, previous_len: usize) -> Result<Plan<'_>, Error> {
        let set = values.set(Layout::SET_KEY)?;
        let changed = self.changed_args(set.as_deref());
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
        let add = self.variant.add;
        let counter = self
            .counter
            .as_ref()
            .map(|counter| counter.read(values, !add, previous_len))
            .transpose()?;
        if let (Some(target), Some(counter)) = (&self.counter, &counter) {
            target.verify(counter, members)?;
        }
        if changed.is_empty() {
            return Ok(Plan::Nothing(counter.and_then(|counter| counter.value)));
        }
        let added = if add { changed.len() as u64 } else { 0 };
        let counter = counter.map(|counter| CounterPlan::new(counter, values, members + added));
        Ok(Plan::Change(changed, counter.transpose()?))
    }

    /// The members that the call changes in `set`. A repeated member changes once.
    fn changed_args(&self, set: Option<&IdSet>) -> ChangedArgs {
        let mut changed = buffers::positions();
        let mut seen = IdSet::new();
        for (at, &member) in self.layout.members.clone().zip(self.members.iter()) {
            let is_member = set.is_some_and(|set| set.contains(member));
            if is_member != self.variant.add && (self.members.len() == 1 || seen.insert(member)) {
                changed.push(at);
            }
        }
        changed
    }

    /// The members of these arguments.
    fn members_of(&self, args: &[usize]) -> impl Iterator<Item = u64> {
        args.iter()
            .map(|at| self.members[at - self.layout.members.start])
    }

    /// Makes the changes and replies.
    fn execute(
        &self,
        call: &Call,
        keys: &mut Keyspace,
        changed: ChangedArgs,
        counter: Option<CounterPlan<'_>>,
    ) -> Outcome {
        // UNMARK is not `deny-oom`: it frees memory unless a counter grows. The server has refused a MARK already.
        let grows = counter.as_ref().is_some_and(|plan| plan.counter.grows());
        if grows && !self.variant.add && call.is_memory_full() {
            return Err(Error::MemoryFull);
        }
        match &self.layout.event {
            Some(event) => self.execute_with_event(call, keys, changed, counter, event),
            None => {
                let applied = self.apply(call, keys, &changed, counter)?;
                self.publish(call, keys, &changed, applied);
                Ok(())
            }
        }
    }

    /// Appends the entry, changes the set and the counter, and replies. If they can no longer change after the entry was
    /// appended, the entry is deleted. If other members change than the entry has, it is replaced.
    fn execute_with_event(
        &self,
        call: &Call,
        keys: &mut Keyspace,
        mut changed: ChangedArgs,
        counter: Option<CounterPlan<'_>>,
        event: &EventArgs,
    ) -> Outcome {
        // Hooks run with each entry, so a prepared object may be stale. Its allocation has shown that there is enough memory.
        let mut previous_len = counter.map_or(0, |plan| plan.counter.final_len());
        for _ in 0..MAX_APPENDS {
            let Some(entry) = self.append(keys, event, &changed) else {
                return Ok(()); // the error of XADD is the reply
            };
            let result = match self.plan(&self.values_again(keys), previous_len) {
                Ok(Plan::Change(now, counter)) if *now != *changed => {
                    previous_len = counter.map_or(0, |plan| plan.counter.final_len());
                    changed = now;
                    entry.delete(keys);
                    continue;
                }
                Ok(Plan::Change(_, counter)) => match self.apply(call, keys, &changed, counter) {
                    Ok(applied) => {
                        if let Some(maxlen) = self.maxlen {
                            entry.trim(keys, maxlen);
                        }
                        self.publish(call, keys, &changed, applied);
                        return Ok(());
                    }
                    Err(error) => Err(error),
                },
                Ok(Plan::Nothing(value)) => Ok(value),
                Err(error) => Err(error),
            };
            entry.delete(keys);
            self.reply(call, &[], result?);
            return Ok(());
        }
        Err(Error::Interference)
    }

    /// Appends the entry, with the `changed` members if the command can have several.
    fn append(
        &self,
        keys: &mut Keyspace,
        event: &EventArgs,
        changed: &[usize],
    ) -> Option<StreamEntry> {
        let id = if event.seq { c"0-*" } else { c"*" };
        let mut members = buffers::bytes();
        if self.variant.many {
            let mut number = itoa::Buffer::new();
            for member in self.members_of(changed) {
                if !members.is_empty() {
                    members.push(b',');
                }
                members.extend_from_slice(number.format(member).as_bytes());
            }
        }
        let members = (!members.is_empty()).then_some((MEMBERS, members.as_slice()));
        StreamEntry::append(keys, event.stream, id, event.fields, members)
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
        changed: &[usize],
        counter: Option<CounterPlan<'_>>,
    ) -> Result<Applied, Error> {
        let add = self.variant.add;
        let set = self.change_set(call, keys, changed, add)?;
        let hooks_have_run = matches!(set, SetChange::Created);
        match self.change_counter(keys, changed.len() as u64, counter, hooks_have_run) {
            Ok(counter) => Ok(Applied { set, counter }),
            Err(error) => {
                self.change_set(call, keys, changed, !add)?;
                Err(error)
            }
        }
    }

    /// Publishes the events of the changes, and replies.
    fn publish(&self, call: &Call, keys: &mut Keyspace, changed: &[usize], applied: Applied) {
        let Variant { add, event, .. } = *self.variant;
        if add {
            stats::marked(changed.len() as u64)
        } else {
            stats::unmarked(changed.len() as u64)
        }
        keys.publish(Layout::SET, event);
        if matches!(applied.set, SetChange::Deleted) {
            keys.publish_del(Layout::SET);
        }
        if let Some(key) = applied.counter.as_ref().and_then(|c| c.changed_key) {
            keys.publish(key, event);
        }
        self.reply(call, changed, applied.counter.map(|change| change.value));
    }

    /// Changes the counter by the number of `changed` members. If hooks have run since the plan was made, the counter is
    /// read again.
    fn change_counter(
        &self,
        keys: &mut Keyspace,
        changed: u64,
        plan: Option<CounterPlan<'_>>,
        hooks_have_run: bool,
    ) -> Result<Option<CounterChange>, Error> {
        let Some(mut plan) = plan else {
            return Ok(None);
        };
        let add = self.variant.add;
        if let (Some(counter), true) = (&self.counter, hooks_have_run) {
            let values = self.values_again(keys);
            counter.check_type(&values)?;
            let counter = counter.read(&values, !add, plan.counter.final_len())?;
            let set = values.set(Layout::SET_KEY)?;
            let cardinality = set.as_deref().map_or(changed, IdSet::len);
            plan = CounterPlan::new(counter, &values, cardinality)?;
        }
        let delta = match (add, plan.counter.value) {
            (true, None) => plan.cardinality,
            _ => changed,
        };
        let delta = i64::try_from(delta).unwrap_or(i64::MAX);
        let delta = if add { delta } else { -delta };
        plan.counter.change(keys, delta, plan.prepared)
    }

    /// Adds the `changed` members to the set, or removes them.
    fn change_set(
        &self,
        call: &Call,
        keys: &mut Keyspace,
        changed: &[usize],
        add: bool,
    ) -> Result<SetChange, Error> {
        let replicate = Replicate::Effect {
            command: if add { c"RBM.ADD" } else { c"RBM.REM" },
            args: [Some(Layout::SET), None, None],
            more: changed,
            number: None,
        };
        let mut key = keys.write(Layout::SET);
        let Some(mut set) = key.set_mut()? else {
            if add {
                let set = || Ok::<_, Infallible>(self.members_of(changed).collect::<IdSet>());
                let Ok(set) = idset::build(set);
                key.store(set, replicate).publish_later();
            }
            return Ok(SetChange::Created);
        };
        call.begin_effects();
        set.change(|set| {
            for member in self.members_of(changed) {
                if add {
                    set.insert(member);
                } else {
                    set.remove(member);
                }
            }
        });
        if set.is_empty() {
            key.delete(replicate).publish_later();
            return Ok(SetChange::Deleted);
        }
        key.changed(replicate).publish_later();
        Ok(SetChange::Changed)
    }

    /// Replies `[changed, value]`. With several members, `changed` is an array.
    fn reply(&self, call: &Call, changed: &[usize], value: Option<u64>) {
        call.reply_array(2);
        if self.variant.many {
            let mut changed = changed.iter().peekable();
            let members = self.layout.members.clone();
            call.reply_ints(members.map(|at| u64::from(changed.next_if_eq(&&at).is_some())));
        } else {
            call.reply_int(u64::from(!changed.is_empty()));
        }
        match value {
            Some(value) => call.reply_int(value),
            None => call.reply_null(),
        }
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
