//! The IDs of the envelopes of a batch, which the commit checks and remembers.

use super::batch::Batch;
use crate::domain::config::{self, DedupConfig};
use crate::domain::ids::Id;
use crate::domain::keys::{Keys, Partition};
use redis::Cmd;
use std::collections::BTreeSet;

/// The IDs of the envelopes of a batch.
pub(super) struct EventIds<'a> {
    /// The key of each ID.
    pub keys: Vec<String>,
    /// The sets of the partitions of the numeric IDs.
    pub set_keys: Vec<String>,
    /// The number of the set of each ID, from 1 on; 0 if the ID is not a number.
    ids: Vec<(usize, &'a Id)>,
}

impl<'a> EventIds<'a> {
    /// The IDs of a batch.
    pub fn of(batch: &'a Batch, keys: Keys) -> EventIds<'a> {
        let envelopes = batch.envelope_ids.iter();
        let numeric = envelopes.clone().filter(|(id, _)| id.number().is_some());
        let partitions: BTreeSet<Partition> = numeric.map(|(_, partition)| *partition).collect();
        let partitions: Vec<Partition> = partitions.into_iter().collect();
        let set = |id: &Id, partition| match (id.number(), partitions.binary_search(partition)) {
            (Some(_), Ok(at)) => at + 1,
            _ => 0,
        };
        EventIds {
            keys: envelopes
                .clone()
                .map(|(id, partition)| keys.counted(*partition, id))
                .collect(),
            set_keys: partitions.iter().map(|p| keys.event_ids(*p)).collect(),
            ids: envelopes
                .map(|(id, partition)| (set(id, partition), id))
                .collect(),
        }
    }

    /// Adds the arguments of event_ids.lua. Returns their number.
    pub fn add_arguments(&self, settings: &DedupConfig, call: &mut Cmd) -> usize {
        let is_forever = settings.events == config::EventIds::Forever;
        call.arg(u8::from(is_forever)).arg(self.set_keys.len());
        for (set, id) in &self.ids {
            call.arg(*set).arg(id.as_str());
        }
        2 + 2 * self.ids.len()
    }
}
