//! What comparisons cost the server. A script blocks other clients, so calls are split by their cost.

use crate::domain::error::StoreError;
use crate::facts::CardSource;
use crate::redis::day::DayNumbers;
use crate::redis::store::Store;
use redis::{Cmd, FromRedisValue, RedisError, Value};
use std::ops::Range;

/// Commands that this file sends.
pub const COST_PERMISSIONS: &[&str] = &["ZCARD {chunks}", "ZCARD {days}"];
/// Commands that this file sends for counts by day.
pub const DAY_COST_PERMISSIONS: &[&str] = &["HLEN {day_counts}"];

/// The maximum cost of a call, in tenths of a microsecond of the server's time: 5 ms. The costs are measured, without other load on the
/// server's core.
const MAX_COST: u64 = 50_000;
/// The cost of an entity and its entry of the log.
const ENTITY: u64 = 100;
/// The cost of a counter and its entry of the audit.
const COUNTER: u64 = 60;
/// The cost of the two Hashes of days, and of their total.
const DAYS: u64 = 30;
/// The cost of a field of a Hash of days.
const DAY: u64 = 2;

/// The costs of entities, whose indexes of facts and Hashes of days are measured first.
#[derive(Default)]
pub struct Costs {
    known: Vec<u64>,
    /// Sizes to read: the entity, the command, the cost of a member, and the maximum number of members that a script reads.
    sized: Vec<(usize, Cmd, u64, u64)>,
}

impl Costs {
    /// Adds an entity.
    pub fn add_entity(&mut self) {
        self.known.push(ENTITY);
    }

    /// Adds a counter of the entity that was added last.
    pub fn add_counter(&mut self, facts: Option<&CardSource>, days: Option<&DayNumbers>) {
        let Some(at) = self.known.len().checked_sub(1) else {
            return;
        };
        self.known[at] += COUNTER;
        if let Some(facts) = facts {
            let cost = facts.cost();
            self.known[at] += cost.known;
            if let Some(index) = cost.index {
                let mut cmd = redis::cmd("ZCARD");
                cmd.arg(index);
                self.sized.push((at, cmd, cost.member, cost.max_members));
            }
        }
        if let Some(days) = days {
            let [hash, history, _] = days.keys();
            self.add_days(&[hash, history]);
        }
    }

    /// Adds Hashes of days of the entity that was added last.
    pub fn add_days(&mut self, hashes: &[&str]) {
        let Some(at) = self.known.len().checked_sub(1) else {
            return;
        };
        self.known[at] += DAYS;
        for hash in hashes {
            let mut cmd = redis::cmd("HLEN");
            cmd.arg(*hash);
            self.sized.push((at, cmd, DAY, u64::MAX));
        }
    }

    /// Divides the entities into calls that cost at most about 5 ms and have at most `max` entities. An entity is not divided.
    ///
    /// # Errors
    /// The store is unavailable.
    pub async fn calls(
        mut self,
        store: &Store,
        max: usize,
    ) -> Result<Vec<Range<usize>>, StoreError> {
        // One entity is one call, whatever it costs.
        if self.known.len() > 1 && !self.sized.is_empty() {
            let mut pipeline = redis::pipe();
            for (_, cmd, ..) in &self.sized {
                pipeline.add_command(cmd.clone());
            }
            pipeline.ignore_errors();
            let sizes: Vec<Result<Value, RedisError>> =
                pipeline.query_async(&mut store.reads()).await?;
            for ((at, _, member, max_members), size) in self.sized.iter().zip(sizes) {
                // A key of another type is not read.
                let size = size.map(|size| u64::from_redis_value(size).unwrap_or(0));
                let members = size.unwrap_or(0).min(*max_members);
                self.known[*at] = self.known[*at].saturating_add(members.saturating_mul(*member));
            }
        }
        Ok(divide(&self.known, max))
    }
}

fn divide(costs: &[u64], max: usize) -> Vec<Range<usize>> {
    let mut calls: Vec<Range<usize>> = Vec::new();
    let mut sum = 0_u64;
    for (at, cost) in costs.iter().enumerate() {
        sum = sum.saturating_add(*cost);
        match calls.last_mut() {
            Some(call) if sum <= MAX_COST && call.len() < max => call.end = at + 1,
            _ => {
                calls.push(at..at + 1);
                sum = *cost;
            }
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_divided_by_cost_and_number() {
        let lengths = |costs: &[u64], max| -> Vec<usize> {
            let calls = divide(costs, max).into_iter();
            calls.map(|call| call.len()).collect()
        };
        assert_eq!(lengths(&[], 50), [0; 0]);
        assert_eq!(lengths(&[100; 3], 50), [3]);
        assert_eq!(lengths(&[100; 5], 2), [2, 2, 1]);
        // An entity that costs too much is alone.
        assert_eq!(lengths(&[100, 60_000, 100, 100], 50), [1, 1, 2]);
        assert_eq!(lengths(&[25_000; 3], 50), [2, 1]);
        assert_eq!(lengths(&[u64::MAX; 2], 50), [1, 1]);
    }
}
