//! Reads facts for log entries that request it, and for derived events that were retried from the dead letters.
//!
//! A retried change may be older than a change that was applied meanwhile. The fact itself tells what holds now. Reading it when the
//! entry is reached is exact: it includes every change before the read, and every change after it follows in the log.

use super::decoder::{DecodedEntry, ReadFacts};
use crate::domain::config::Config;
use crate::domain::error::StoreError;
use crate::domain::event::Reread;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::split::base_of;
use crate::facts::{Fact, FactStores};
use crate::redis::call::send_reads;
use crate::redis::store::Store;
use redis::FromRedisValue;
use std::borrow::Cow;

/// The maximum number of facts that the entries of one read change or name, unless the first entry has more.
const MAX_FACTS: usize = 2_000;

/// The number of facts that an entry changes or names.
fn fact_count(entry: &DecodedEntry) -> usize {
    match entry {
        DecodedEntry::Derived(derived) => derived.revs.len(),
        DecodedEntry::Reread(reread) => reread.uids.len(),
        _ => 0,
    }
}

/// How many of these entries may be aggregated at once.
pub fn limit_facts(entries: &[DecodedEntry]) -> usize {
    let mut facts = 0;
    let within = entries.iter().take_while(|entry| {
        facts += fact_count(entry);
        facts <= MAX_FACTS
    });
    within.count().max(1).min(entries.len())
}

/// Reads the facts that entries need, and puts them into the entries.
///
/// # Errors
/// The store is unavailable.
pub async fn reread_facts(
    store: &Store,
    config: &Config,
    entries: &mut [DecodedEntry],
) -> Result<(), StoreError> {
    for entry in entries {
        match entry {
            DecodedEntry::Reread(Reread {
                metric,
                etype,
                eid,
                uids,
            }) => {
                let entity = Entity {
                    etype: etype.clone(),
                    eid: eid.clone(),
                };
                let facts = uids.iter().map(|uid| (&*metric, &entity, uid));
                let facts: Vec<_> = facts.collect();
                *entry = match exist(store, config, &facts).await? {
                    Ok(exist) => DecodedEntry::Facts(ReadFacts {
                        users: uids.drain(..).zip(exist).collect(),
                        metric: metric.clone(),
                        entity,
                    }),
                    Err(reason) => DecodedEntry::Invalid(reason),
                };
            }
            DecodedEntry::Derived(derived) if derived.source.is_none() => {
                let revs = derived.revs.iter();
                let facts: Vec<_> = revs
                    .map(|rev| (&rev.metric, &rev.entity, &rev.uid))
                    .collect();
                match exist(store, config, &facts).await? {
                    Ok(exist) => {
                        for (rev, exists) in derived.revs.iter_mut().zip(exist) {
                            if rev.exists != exists {
                                (rev.exists, rev.ts) = (exists, 0);
                            }
                        }
                    }
                    Err(reason) => *entry = DecodedEntry::Invalid(reason),
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether facts exist, in order. The inner error is that of a damaged key.
async fn exist(
    store: &Store,
    config: &Config,
    facts: &[(&Name, &Entity, &Id)],
) -> Result<Result<Vec<bool>, String>, StoreError> {
    let stores = FactStores::new(store.keys(), store.current_backend(), config.facts.shards);
    let layout = store.layout();
    let mut exist = vec![false; facts.len()];
    let (mut calls, mut places) = (Vec::new(), Vec::new());
    for (place, (metric, entity, uid)) in facts.iter().enumerate() {
        let Some((metric, settings)) = config.metrics.get(metric.as_str()) else {
            continue;
        };
        let Some(of_metric) = stores.of(settings) else {
            continue;
        };
        // A fact store has no facts of users whose IDs it does not support.
        if of_metric.check_uid(uid).is_ok() {
            // A merge has moved the facts of a shard to the base, and what stands in their place expires.
            let entity = match layout.is_former_shard(&entity.etype, &entity.eid) {
                true => base_of(entity),
                false => Cow::Borrowed(*entity),
            };
            calls.push(of_metric.contains(&Fact {
                metric,
                entity: &entity,
                uid,
            }));
            places.push(place);
        }
    }
    if calls.is_empty() {
        return Ok(Ok(exist));
    }
    for (place, reply) in places.into_iter().zip(send_reads(store, &calls).await?) {
        match reply.map_err(StoreError::from) {
            Ok(reply) => {
                exist[place] = bool::from_redis_value(reply)
                    .map_err(|error| StoreError::Unexpected(format!("a fact: {error}")))?;
            }
            Err(StoreError::WrongType(error)) => {
                return Ok(Err(format!("a fact cannot be read: {error}")));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Ok(exist))
}
