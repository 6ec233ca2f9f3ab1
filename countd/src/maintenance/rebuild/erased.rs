//! Erased entities: what the log and the topic have of them from before the erasure is no part of their counters.
//!
//! Streams and the topic are read separately, so the order of an erasure, which is an entry of a stream, and of records of the topic is not
//! that in which they are read. Erasures are therefore found first. The entry says which records were counted before it.

use super::changes::Change;
use super::shadow::Additions;
use crate::domain::ids::Entity;
use std::collections::HashMap;

/// The last erasure of an entity.
#[derive(Clone, Copy)]
struct Erasure {
    /// The offset of its entry.
    entry: u64,
    /// The offset of the first record of the topic that was not counted before.
    record: u64,
}

/// Where a change comes from.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// An entry of the log.
    Entry(u64),
    /// A record of the topic.
    Record(u64),
}

/// The last erasures of entities.
#[derive(Default)]
pub(super) struct Erased(HashMap<Entity, Erasure>);

impl Erased {
    /// Finds erasures among the changes of an entry.
    pub fn find(&mut self, entry: u64, changes: &[Change]) {
        for change in changes.iter().filter(|change| change.delta.is_none()) {
            let record = change.topic.unwrap_or(0);
            let erasure = Erasure { entry, record };
            let last = self.0.entry(change.entity.clone()).or_insert(erasure);
            if last.entry <= entry {
                *last = erasure;
            }
        }
    }

    /// Whether a change is a part of the counters: no erasure of the entity came after it. An erasure itself is none.
    pub fn keeps(&self, place: Place, change: &Change) -> bool {
        let erasure = self.0.get(&change.entity);
        let is_later = erasure.is_none_or(|erasure| match place {
            Place::Entry(offset) => offset > erasure.entry,
            Place::Record(offset) => offset >= erasure.record,
        });
        change.delta.is_some() && is_later
    }

    /// Deletes the shadows of entities that were erased after the shadows had all records before `shadow`. Others have left out what came
    /// before the erasure.
    pub fn delete_shadows<'c>(
        &self,
        changes: impl Iterator<Item = &'c Change>,
        shadow: u64,
        additions: &mut Additions,
    ) {
        for change in changes.filter(|change| change.delta.is_none()) {
            if change.topic.is_none_or(|record| record >= shadow) {
                additions.add(change.clone());
            }
        }
    }
}
