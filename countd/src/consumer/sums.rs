//! The sums of credits that a batch changes, by which received counters are verified (lua/sums.lua).

use super::rules::Rules;
use super::section::CommitSection;
use crate::domain::config::{Config, UserCounter};
use crate::domain::ids::{Id, Name};
use crate::domain::keys::{Keys, Partition};
use crate::redis::layout::Authors;
use redis::Cmd;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The columns of credits that feed a known counter of users.
pub type SumColumns = Vec<(usize, UserCounter)>;

/// What the commit needs to write sums.
#[derive(Debug)]
struct Place {
    keys: Vec<String>,
    user_len: usize,
    columns: Arc<SumColumns>,
}

/// The sums of credits that a batch changes. The commit decides whether a sweep needs them.
#[derive(Debug, Default)]
pub struct Sums {
    place: Option<Place>,
    /// By partition, user, index of the counter and number of the sweep.
    items: BTreeMap<(Partition, Id, u16, u32), i64>,
    /// By the partition of the users.
    forwarded: BTreeMap<Partition, BTreeMap<(Id, Name, u32), i64>>,
}

impl Sums {
    /// The commit credits authors of entities of a partition, or changes sums of its users.
    pub fn enable(&mut self, rules: &Rules<'_>, columns: &Arc<SumColumns>, partition: Partition) {
        let user_len = rules.user_counter_count();
        if let Some(place) = &mut self.place {
            // The schema can be extended while the batch accumulates.
            place.user_len = place.user_len.max(user_len);
            place.columns = Arc::clone(columns);
            return;
        }
        let keys = rules.locator.keys();
        let mut all = vec![keys.sums_state(partition)];
        if keys.tagged() {
            all.extend([keys.sum_table(partition), keys.sum_hash(partition)]);
        }
        self.place = Some(Place {
            keys: all,
            user_len,
            columns: Arc::clone(columns),
        });
    }

    /// Adds to a sum of a user.
    pub fn add(&mut self, partition: Partition, uid: &Id, idx: u16, delta: i64, sweep: u32) {
        let item = (partition, uid.clone(), idx, sweep);
        let sum = self.items.entry(item).or_default();
        *sum = sum.saturating_add(delta);
    }

    /// Adds to a sum of a user in another slot.
    pub fn forward(&mut self, to: Partition, uid: &Id, counter: &Name, delta: i64, sweep: u32) {
        let item = (uid.clone(), counter.clone(), sweep);
        let sum = self.forwarded.entry(to).or_default();
        let sum = sum.entry(item).or_default();
        *sum = sum.saturating_add(delta);
    }

    /// The increments for users in other slots: user, counter, increment and sweep, by partition.
    pub fn forwarded(&self) -> impl Iterator<Item = (Partition, (&Id, &Name, i64, u32))> {
        self.forwarded.iter().flat_map(|(to, items)| {
            let changed = items.iter().filter(|(_, delta)| **delta != 0);
            changed.map(|((uid, counter, sweep), delta)| (*to, (uid, counter, *delta, *sweep)))
        })
    }
}

impl CommitSection for Sums {
    fn keys(&self) -> Vec<String> {
        let place = self.place.as_ref();
        place.map_or_else(Vec::new, |place| place.keys.clone())
    }

    fn add_arguments(&self, _: &Config, _: Keys, call: &mut Cmd) -> usize {
        let Some(place) = &self.place else {
            call.arg(0);
            return 1;
        };
        call.arg(if place.keys.len() > 1 { 2 } else { 1 });
        call.arg(place.user_len).arg(place.columns.len());
        for (column, counter) in place.columns.iter() {
            // Lua counts from 1.
            call.arg(column + 1)
                .arg(counter.index())
                .arg(counter.name().as_str());
        }
        call.arg(self.items.len());
        for ((partition, uid, idx, sweep), delta) in &self.items {
            call.arg(*partition).arg(uid.as_str());
            call.arg(*idx).arg(*delta).arg(*sweep);
        }
        4 + 3 * place.columns.len() + 5 * self.items.len()
    }
}

/// The columns of credits that feed a known counter of users.
pub fn sum_columns(rules: &Rules<'_>) -> SumColumns {
    let Authors::Registry { feeds } = &rules.locator.layout().authors else {
        return Vec::new();
    };
    let columns = feeds.iter().enumerate();
    columns
        .filter_map(|(column, feed)| {
            let name = rules.config.metrics.author_counter(feed)?;
            let index = rules.user_counter(name).ok()?;
            Some((column, UserCounter::new(index, name.clone())))
        })
        .collect()
}
