//! Replays archived entries into data that is older than they are.
//!
//! An entry up to the last offset that the log had when the data was saved is counted as usual: what its step changed is in the data. A
//! later entry is counted with what its step has changed: the fact, the counter of the entity, the author. Facts and authors are set, not
//! added, so they may be set again after a crash; all else is in the commit that advances the position.

mod before;
mod commit;
mod facts;
mod settle;
mod splits;
mod state;
mod step;

pub use state::Replay;

use super::decoder::DecodedEntry;
use crate::domain::error::Problem;
use crate::domain::keys::Partition;
use crate::domain::op::Op;
use crate::log::archive::Record;
use crate::redis::permissions::Permissions;
use crate::redis::script::CounterBackend;
use std::collections::{BTreeMap, VecDeque};
use step::{Step, step};

/// The permissions that replays require, in addition to those of the consumer.
pub fn required_permissions(backend: CounterBackend) -> Permissions {
    Permissions::of_commands(facts::PERMISSIONS)
        .and(before::DELETE.required_permissions(backend))
        .and(settle::SETTLE.required_permissions(backend))
}

/// The maximum number of events that are committed together, but for the last group.
const MAX_EVENTS: usize = 4_000;

impl Replay {
    /// Replays records. Those before the positions are skipped.
    ///
    /// # Errors
    /// Redis failed, another process counts, or an entry cannot be replayed. What was committed stays; the replay can continue later.
    pub async fn replay(&mut self, records: Vec<Record>) -> Result<(), Problem> {
        let mut queues: BTreeMap<Partition, VecDeque<Step>> = BTreeMap::new();
        let mut facts = BTreeMap::new();
        let layout = self.store.layout();
        for record in records {
            let partition = record.partition;
            if record.entry.offset < self.next(partition) {
                continue;
            }
            let is_later = self.is_later(partition, &record.entry);
            let step = step(record, self.saved(partition))?;
            if is_later {
                splits::check(&layout, (partition, step.entry.offset), &step.decoded)?;
            }
            let events = match &step.decoded {
                DecodedEntry::Event(event, None) if is_later => std::slice::from_ref(event),
                DecodedEntry::Group(events) if is_later => events,
                _ => &[],
            };
            for event in events {
                if let Some((metric, settings)) =
                    self.catalog.config.metrics.get(event.metric.as_str())
                    && settings.fact_kind().is_some()
                {
                    let op = if event.delta > 0 { Op::Add } else { Op::Remove };
                    let fact = (metric.clone(), event.entity.clone(), event.uid.clone());
                    facts.insert(fact, (op, event.ts));
                }
            }
            queues.entry(partition).or_default().push_back(step);
        }
        self.set_facts(facts).await?;
        while !queues.is_empty() {
            let mut groups: BTreeMap<Partition, Vec<(Partition, Vec<Step>)>> = BTreeMap::new();
            let mut count = 0;
            for (partition, queue) in &mut queues {
                let group = if self.store.keys().tagged() {
                    *partition
                } else {
                    0
                };
                let mut steps = Vec::new();
                while count < MAX_EVENTS && queue.front().is_some_and(|step| step.before.is_none())
                {
                    if let Some(step) = queue.pop_front() {
                        count += step.decoded.event_count();
                        steps.push(step);
                    }
                }
                if !steps.is_empty() {
                    groups.entry(group).or_default().push((*partition, steps));
                }
            }
            for steps in groups.into_values() {
                self.commit(steps).await?;
            }
            if count == 0 {
                for (partition, queue) in &mut queues {
                    if let Some(mut step) = queue.pop_front() {
                        if let Some(before) = step.before.take() {
                            self.run(before).await?;
                        }
                        self.commit(vec![(*partition, vec![step])]).await?;
                    }
                }
            }
            queues.retain(|_, queue| !queue.is_empty());
        }
        Ok(())
    }
}
