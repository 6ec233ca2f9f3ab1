//! The section of a commit with the entities whose scores in rankings it computes again (ranks.lua).

use super::rules::Rules;
use super::section::CommitSection;
use crate::domain::config::Config;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::{Keys, Partition};
use crate::redis::rank::add_ranking;
use redis::Cmd;
use std::collections::{BTreeMap, BTreeSet};

/// The entities of a batch whose counts by day changed, by type.
#[derive(Debug, Default)]
pub struct Ranks {
    entities: BTreeMap<Name, BTreeSet<Id>>,
    /// The number of entities.
    len: usize,
    /// Any partition of the batch. In a cluster there is only one.
    partition: Partition,
    /// The states of the rankings, in the order of the configuration.
    states: Vec<String>,
}

impl Ranks {
    /// Adds an entity whose counts of all metrics may have changed.
    pub fn add(&mut self, rules: &Rules<'_>, entity: &Entity) {
        if let Some(eids) = self.entities.get_mut(&entity.etype) {
            if !eids.contains(&entity.eid) {
                eids.insert(entity.eid.clone());
                self.len += 1;
            }
            return;
        }
        let keys = rules.locator.keys();
        self.partition = keys.of_entity(entity);
        let eids = BTreeSet::from([entity.eid.clone()]);
        self.entities.insert(entity.etype.clone(), eids);
        self.len += 1;
        let ranked = rules.config.rankings();
        let ranked = ranked.filter(|of| self.entities.contains_key(of.etype));
        let states = ranked.map(|of| keys.rank_state(of.name, of.etype, self.partition));
        self.states = states.collect();
    }

    /// The number of entities.
    pub fn len(&self) -> usize {
        self.len
    }
}

impl CommitSection for Ranks {
    fn keys(&self) -> Vec<String> {
        self.states.clone()
    }

    fn add_arguments(&self, config: &Config, keys: Keys, call: &mut Cmd) -> usize {
        call.arg(self.states.len());
        let mut count = 1;
        if self.states.is_empty() {
            return count;
        }
        for of in config.rankings() {
            if let Some(eids) = self.entities.get(of.etype) {
                count += add_ranking(call, (keys, self.partition), &of);
                call.arg(eids.len());
                for eid in eids {
                    call.arg(eid.as_str());
                }
                count += 1 + eids.len();
            }
        }
        count
    }
}
