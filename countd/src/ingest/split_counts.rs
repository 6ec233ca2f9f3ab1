//! Reads the counts of split entities for the answers to actions.

use super::actions::Actions;
use super::split_totals::{Known, LIFETIME, SplitTotals, count_call};
use crate::domain::error::{Problem, StoreError};
use crate::domain::ids::{Entity, Name};
use crate::domain::keys::CounterLocation;
use crate::domain::split::SplitState;
use crate::redis::call::{RedisCall, send_reads};
use crate::redis::permissions::Permissions;
use crate::redis::script::CounterBackend;
use futures_util::future::join_all;
use redis::FromRedisValue;
use std::sync::Arc;
use std::time::Instant;

impl Actions {
    /// The permissions that [`count_call`](Self::count_call) requires.
    pub fn total_permissions(backend: CounterBackend) -> Permissions {
        SplitTotals::required_permissions(backend)
    }

    /// The call that reads a counter. Its reply is the value.
    pub fn count_call(backend: CounterBackend, at: &CounterLocation, idx: usize) -> RedisCall {
        count_call(backend, at, idx)
    }

    /// The count of a split entity. One counter may be known: that of the base (place 0), or of a shard.
    ///
    /// # Errors
    /// Redis failed.
    pub(super) async fn total(
        &self,
        (base, metric): (&Entity, &Name),
        state: &SplitState,
        known: Option<(usize, u64)>,
    ) -> Result<u64, Problem> {
        let Some((place, count)) = known else {
            return Ok(self.counts((base, metric), state).await?.iter().sum());
        };
        let lifetime = self.catalog.config.hot.cache().unwrap_or(LIFETIME);
        let asked_at = Instant::now();
        let slot = self.totals.slot((base.clone(), metric.clone()));
        let mut slot = slot.lock().await;
        let known = slot.as_ref();
        let known = known.and_then(|known| known.for_answer(state.generation, asked_at, lifetime));
        let counts = match known {
            Some(counts) => counts.ok_or_else(not_read)?,
            None => {
                let read_at = Instant::now();
                let read = self.counts((base, metric), state).await;
                let read: Result<Arc<[u64]>, Problem> = read.map(Into::into);
                let counts = read.as_ref().ok().cloned();
                *slot = Some(Known::new(state.generation, read_at, counts));
                read?
            }
        };
        drop(slot);
        let others = counts.iter().enumerate().filter(|(at, _)| *at != place);
        Ok(count + others.map(|(_, count)| count).sum::<u64>())
    }

    async fn counts(
        &self,
        (base, metric): (&Entity, &Name),
        state: &SplitState,
    ) -> Result<Vec<u64>, Problem> {
        let mut calls = Vec::with_capacity(usize::from(state.shards) + 1);
        let mut places = Vec::with_capacity(calls.capacity());
        let shards = state.all().map(|shard| shard.of(base));
        for entity in std::iter::once(base.clone()).chain(shards) {
            let counter = self.counter(&entity, metric).await?;
            let backend = self.store.backend();
            calls.push(Actions::count_call(backend, &counter.at, counter.idx));
            places.push((entity, counter.idx));
        }
        let replies = send_reads(&self.store, &calls).await?.into_iter();
        let counts = replies.map(|reply| {
            let unexpected = |error: redis::ParsingError| StoreError::Unexpected(error.to_string());
            Ok(u64::from_redis_value(reply?).map_err(unexpected)?)
        });
        let mut counts = counts.collect::<Result<Vec<u64>, Problem>>()?;
        self.rebuild_zeros(metric, state, &places, &mut counts)
            .await;
        Ok(counts)
    }

    /// Rebuilds the counters of 0 whose facts exist, which were lost. If that fails, they stay as they were read. `places` has the base and the
    /// shards, and the index of the counter.
    async fn rebuild_zeros(
        &self,
        metric: &Name,
        state: &SplitState,
        places: &[(Entity, usize)],
        counts: &mut [u64],
    ) {
        let keys = self.store.keys();
        let facts = |place: usize, entity: &Entity| match place {
            0 => keys.base_of_split(metric, entity, state.generation).frozen,
            _ => keys.facts(metric, entity),
        };
        let zeros = places.iter().enumerate();
        let zeros = zeros.filter(|(place, _)| counts[*place] == 0);
        let zeros: Vec<(usize, String)> = zeros
            .map(|(place, (entity, _))| (place, facts(place, entity)))
            .collect();
        let lost = match self.rebuilder.existing_facts(zeros).await {
            Ok(lost) => lost,
            Err(error) => {
                tracing::warn!(%error, "counters of shards cannot be verified now");
                return;
            }
        };
        let rebuilds = lost.into_iter().map(async |place| {
            let (entity, idx) = &places[place];
            let values = self.rebuilder.entity(entity, "-").await;
            values.and_then(|values| Some((place, *values.get(*idx)?)))
        });
        for (place, count) in join_all(rebuilds).await.into_iter().flatten() {
            counts[place] = count;
        }
    }
}

/// The problem of an answer that waited for a read of another one, which failed.
fn not_read() -> Problem {
    let reason = "the counters of the other places could not be read".to_owned();
    StoreError::Unavailable(std::io::Error::other(reason).into()).into()
}
