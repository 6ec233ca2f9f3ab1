//! The section of a commit with the entities whose scores in rankings it computes again (ranks.lua).

use super::rules::Rules;
use super::section::CommitSection;
use crate::domain::config::Config;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::{Keys, Partition};
use crate::redis::rank::add_ranking;
use redis::Cmd;
use std::collections::{BTreeMap, BTreeSet};

/// The cost of an entity in a ranking, in quarters of a microsecond of the server's time.
const RANKING_COST: usize = 24;
/// The cost of the counts of a metric on a day.
const FIELD_COST: usize = 2;

/// The entities of a batch whose counts by day changed, by type.
#[derive(Debug, Default)]
pub struct Ranks {
    entities: BTreeMap<Name, BTreeSet<Id>>,
    /// The cost of an entity of each type.
    costs: BTreeMap<Name, usize>,
    cost: usize,
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
                self.cost += self.costs.get(&entity.etype).copied().unwrap_or(0);
            }
            return;
        }
        let keys = rules.locator.keys();
        self.partition = keys.of_entity(entity);
        let eids = BTreeSet::from([entity.eid.clone()]);
        self.entities.insert(entity.etype.clone(), eids);
        let ranked = rules.config.rankings();
        let ranked = ranked.filter(|of| *of.etype == entity.etype);
        let fields = ranked.map(|of| of.weights.len() * of.ranking.window() as usize);
        let cost = fields
            .map(|fields| RANKING_COST + fields * FIELD_COST)
            .sum();
        self.costs.insert(entity.etype.clone(), cost);
        self.cost += cost;
        let ranked = rules.config.rankings();
        let ranked = ranked.filter(|of| self.entities.contains_key(of.etype));
        let states = ranked.map(|of| keys.rank_state(of.name, of.etype, self.partition));
        self.states = states.collect();
    }

    /// The cost of computing the scores, in quarters of a microsecond of the server's time.
    pub fn cost(&self) -> usize {
        self.cost
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
