//! The counters that differed in the last rounds (drift.lua): each round compares them again.

use super::compare::{Comparer, PAGE};
use super::context::Context;
use crate::domain::config::USER;
use crate::domain::error::StoreError;
use crate::domain::event::CheckMode;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::{Partition, StoragePhase};
use crate::maintenance::pace::Pace;
use crate::maintenance::sums::{FollowersCheck, SumSweep};
use std::collections::{BTreeMap, BTreeSet};

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["HGETALL {drift}", "HDEL {drift} f"];

/// A counter that differs in so many rounds in a row has not converged.
const UNCONVERGED: u64 = 3;
/// The number of Hashes that are read at once.
const HASHES: usize = 100;

/// A counter that differed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drifting {
    /// The entity, or the user.
    pub entity: Entity,
    /// The metric, or the counter of the user.
    pub counter: Name,
    /// The number of rounds in a row.
    pub rounds: u64,
}

impl Drifting {
    /// Of a field `{etype}:{eid}:{counter}` and its value `{rounds}/{last round}`.
    pub(in crate::maintenance) fn parse(field: &str, value: &str) -> Option<Drifting> {
        let mut parts = field.split(':');
        let entity = Entity {
            etype: Name::new(parts.next()?).ok()?,
            eid: Id::new(parts.next()?).ok()?,
        };
        let rounds = value
            .split('/')
            .next()
            .and_then(|rounds| rounds.parse().ok());
        Some(Drifting {
            entity,
            counter: Name::new(parts.next()?).ok()?,
            rounds: rounds.unwrap_or(0),
        })
    }

    /// Whether it is a counter of a user.
    pub fn is_of_user(&self) -> bool {
        self.entity.etype.as_str() == USER
    }
}

/// Compares the counters in `countd:drift` of these partitions again. Deletes the fields of counters that have no source any more: their
/// metric or type was removed, or external events are counted.
///
/// # Errors
/// The store is unavailable, or a log rejects the checks.
pub(super) async fn check_drift(
    context: &Context,
    sums: &SumSweep,
    (comparer, pace): (&mut Comparer, &mut Pace),
    partitions: &[Partition],
) -> Result<(), StoreError> {
    let store = &context.store;
    let keys = store.keys();
    let hashes: BTreeSet<String> = partitions.iter().map(|p| keys.drift(*p)).collect();
    let hashes: Vec<String> = hashes.into_iter().collect();
    let own: BTreeSet<Partition> = partitions.iter().copied().collect();
    let mut unconverged = 0;
    for hashes in hashes.chunks(HASHES) {
        let mut pipe = redis::pipe();
        for hash in hashes {
            pipe.cmd("HGETALL").arg(hash);
        }
        let found: Vec<BTreeMap<String, String>> = pipe.query_async(&mut store.reads()).await?;
        let (mut entities, mut users) = (BTreeSet::new(), BTreeSet::new());
        let mut obsolete = redis::pipe();
        for (hash, fields) in hashes.iter().zip(found) {
            for (field, value) in &fields {
                let Some(counter) = Drifting::parse(field, value) else {
                    continue;
                };
                let home = match counter.is_of_user() {
                    true => keys.of_user(&counter.entity.eid),
                    false => keys.of_entity(&counter.entity),
                };
                if !own.contains(&home) {
                    continue;
                }
                if !is_compared(sums, comparer, &counter).await? {
                    obsolete.cmd("HDEL").arg(hash).arg(field);
                    continue;
                }
                unconverged += u64::from(counter.rounds >= UNCONVERGED);
                match counter.is_of_user() {
                    true => users.insert(counter.entity.eid),
                    false => entities.insert((counter.entity.etype, counter.entity.eid)),
                };
            }
        }
        if !obsolete.is_empty() {
            obsolete.exec_async(&mut store.commands()).await?;
        }
        let entities = entities
            .into_iter()
            .map(|(etype, eid)| Entity { etype, eid });
        let entities: Vec<Entity> = entities.collect();
        for page in entities.chunks(PAGE) {
            comparer.check(page).await?;
            pace.add(page.len()).await;
        }
        check_users(sums, pace, (users, comparer.round())).await?;
    }
    metrics::gauge!("countd_unconverged").set(unconverged as f64);
    Ok(())
}

/// Whether rounds compare a counter. A migration only delays it.
async fn is_compared(
    sums: &SumSweep,
    comparer: &mut Comparer,
    Drifting {
        entity, counter, ..
    }: &Drifting,
) -> Result<bool, StoreError> {
    if entity.etype.as_str() == USER {
        return Ok(sums.counts_followers(counter));
    }
    if comparer.planner.locator().storage_of(&entity.etype) == StoragePhase::Moving {
        return Ok(true);
    }
    let plan = comparer.planner.of_type(&entity.etype).await?;
    Ok(plan.is_some_and(|plan| plan.metrics.iter().any(|metric| metric.name == *counter)))
}

/// Appends checks of the counters of users in a round.
async fn check_users(
    sums: &SumSweep,
    pace: &mut Pace,
    (users, round): (BTreeSet<Id>, u64),
) -> Result<(), StoreError> {
    if users.is_empty() {
        return Ok(());
    }
    let how = FollowersCheck {
        mode: CheckMode::Correct,
        round,
        report: None,
    };
    let Some(mut pass) = sums.followers_pass(how, None).await? else {
        return Ok(());
    };
    for uid in &users {
        sums.check_followers_of(&mut pass, uid).await?;
        pace.add(1).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_name_a_counter() {
        let counter = Drifting::parse("note:a-7:like", "3/17").expect("a counter");
        assert_eq!(counter.entity.eid.as_str(), "a-7");
        assert_eq!(counter.counter.as_str(), "like");
        assert_eq!(counter.rounds, 3);
        assert!(!counter.is_of_user());
        let user = Drifting::parse("user:7:followers", "damaged").expect("a counter");
        assert!(user.is_of_user() && user.rounds == 0);
        assert!(Drifting::parse("note:7", "1/1").is_none());
    }
}
