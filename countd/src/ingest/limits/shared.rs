//! Rate limits in Redis, of users and devices: one script per request, with one `GET` and one `SET` per user.
//!
//! A process prepays some items for each user and spends them without a round trip. Prepaid items count against the limit when they
//! are granted, so all processes together never exceed it. The cache also knows when the next request of a limited user can
//! succeed, so a flood does not reach Redis. If Redis fails, users are not limited.

use super::error::limit_exceeded;
use super::grants::{GrantCache, Rate};
use super::standing::{self, Standing};
use crate::domain::config::LimitConfig;
use crate::domain::error::{Problem, StoreError};
use crate::domain::ids::Id;
use crate::domain::keys::{Keys, Partition};
use crate::redis::permissions::Permissions;
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use futures_util::future::join_all;
use std::collections::{BTreeMap, HashMap};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_128;

static RATE_LIMIT: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::new(include_str!("../../lua/rate_limit.lua")));

/// The time for which an unavailable node is skipped.
const UNAVAILABLE_FOR: Duration = Duration::from_secs(2);
/// The maximum number of users of a request whose standing is recorded.
const RECORDED: usize = 16;
/// The maximum number of users per script call. The script blocks the server.
const USERS_PER_SCRIPT: usize = 200;

/// The name of a device: a hash of the value of its header.
pub type DeviceId = Id;

/// A rate limiter keyed by user or device, shared by all processes.
pub struct SharedLimiter {
    scope: &'static str,
    key: fn(&Keys, &Id) -> String,
    /// `None` if the limit is disabled.
    limit: Option<Rate>,
    store: Store,
    cache: GrantCache,
    /// Unavailable nodes, and until when they are skipped. Otherwise each request would wait for a timeout.
    unavailable: Mutex<HashMap<usize, Instant>>,
}

/// A request for items of a user: at least `min` or none, and at most `max`.
#[derive(Clone, Copy)]
struct GrantRequest<'a> {
    uid: &'a Id,
    min: usize,
    max: usize,
}

/// The items that a user is granted.
#[derive(Clone, Copy)]
struct Grant {
    items: usize,
    /// How far the theoretical arrival time is ahead of the clock after the grant.
    ahead: Duration,
}

/// The items that a user has acquired, and the items that the request needs.
struct Demand<'a> {
    uid: &'a Id,
    acquired: usize,
    items: usize,
}

impl SharedLimiter {
    /// Creates a limiter for all users of `store`.
    pub fn of_users(limit: LimitConfig, store: Store) -> SharedLimiter {
        SharedLimiter::new("user", Keys::limit, limit, store)
    }

    /// Creates a limiter for all devices of `store`.
    pub fn of_devices(limit: LimitConfig, store: Store) -> SharedLimiter {
        SharedLimiter::new("device", Keys::device_limit, limit, store)
    }

    fn new(
        scope: &'static str,
        key: fn(&Keys, &Id) -> String,
        limit: LimitConfig,
        store: Store,
    ) -> SharedLimiter {
        SharedLimiter {
            scope,
            key,
            limit: limit
                .rate_and_burst()
                .map(|(rate, burst)| Rate::new(rate.get(), burst.get())),
            store,
            cache: GrantCache::default(),
            unavailable: Mutex::default(),
        }
    }

    /// The name of a device. It has a fixed length and only characters of IDs.
    pub fn device_id(value: &[u8]) -> Option<DeviceId> {
        Id::new(format!("{:032x}", xxh3_128(value))).ok()
    }

    /// Acquires the items of a request except the first, which has been acquired with its headers.
    ///
    /// # Errors
    /// As [`SharedLimiter::acquire_all`].
    pub async fn acquire_rest(&self, id: &Id, items: usize) -> Result<(), Problem> {
        self.check_burst(items)?;
        self.acquire(id, items.saturating_sub(1)).await
    }

    fn record(&self, id: &Id, rate: Rate) {
        if let Some(remaining) = self.cache.remaining(id, rate) {
            standing::record(Standing {
                scope: self.scope,
                burst: rate.burst,
                per_second: rate.per_second,
                remaining,
            });
        }
    }

    /// The permissions that limiting users requires.
    pub fn required_permissions() -> Permissions {
        RATE_LIMIT.required_permissions()
    }

    /// Checks that a request for `items` of a user can succeed at all.
    ///
    /// # Errors
    /// [`Problem::TooMany`] if they exceed the burst.
    pub fn check_burst(&self, items: usize) -> Result<(), Problem> {
        match self.limit {
            Some(rate) if items > rate.burst as usize => Err(Problem::TooMany(rate.burst as usize)),
            _ => Ok(()),
        }
    }

    /// Acquires all of `items` for a user, or none. Without items, Redis is not asked.
    ///
    /// # Errors
    /// As [`SharedLimiter::acquire_all`].
    pub async fn acquire(&self, uid: &Id, items: usize) -> Result<(), Problem> {
        if items == 0 {
            return Ok(());
        }
        self.acquire_all(&BTreeMap::from([(uid.clone(), items)]))
            .await
    }

    /// Acquires all items of all users, or none.
    ///
    /// # Errors
    /// [`Problem::Limited`], or [`Problem::TooMany`] if the items of a user exceed the burst.
    pub async fn acquire_all(&self, users: &BTreeMap<Id, usize>) -> Result<(), Problem> {
        let Some(rate) = self.limit else {
            return Ok(());
        };
        if users.values().any(|items| *items > rate.burst as usize) {
            return Err(Problem::TooMany(rate.burst as usize));
        }
        let mut demands: Vec<Demand<'_>> = Vec::with_capacity(users.len());
        let mut longest_wait: Option<Duration> = None;
        for (uid, &items) in users {
            match self.cache.take(uid, items, rate) {
                Ok(acquired) => demands.push(Demand {
                    uid,
                    acquired,
                    items,
                }),
                Err(wait) => longest_wait = longest_wait.max(Some(wait)),
            }
        }
        // If one user is known to be limited, the request fails without a round trip.
        if longest_wait.is_none() {
            longest_wait = self.fill(&mut demands, rate).await;
        }
        // Items that were granted but not spent are kept for the next request.
        for demand in demands {
            let spent = match longest_wait {
                None => demand.items,
                Some(_) => 0,
            };
            self.cache
                .add(demand.uid, demand.acquired.saturating_sub(spent));
        }
        for uid in users.keys().take(RECORDED) {
            self.record(uid, rate);
        }
        longest_wait.map_or(Ok(()), |wait| Err(limit_exceeded(self.scope, wait)))
    }

    /// Requests the missing items of all users, and some prepaid ones. Returns the longest wait of the limited users.
    async fn fill(&self, demands: &mut [Demand<'_>], rate: Rate) -> Option<Duration> {
        let (mut requests, mut indexes) = (Vec::new(), Vec::new());
        for (index, demand) in demands.iter().enumerate() {
            let missing = demand.items.saturating_sub(demand.acquired);
            if missing > 0 {
                requests.push(GrantRequest {
                    uid: demand.uid,
                    min: missing,
                    max: missing + rate.prepaid(),
                });
                indexes.push(index);
            }
        }
        let mut longest_wait = None;
        let grants = self.request(&requests, rate).await;
        for ((index, request), grant) in indexes.into_iter().zip(requests).zip(grants) {
            if grant.items < request.min {
                longest_wait = longest_wait.max(Some(rate.wait(grant.ahead, request.min)));
            }
            self.cache.set_arrival(request.uid, grant.ahead);
            demands[index].acquired += grant.items;
        }
        longest_wait
    }

    /// Acquires one item for each entry of `users`, in order. If a user's items do not all fit, the last ones are limited. The result
    /// has one entry per item.
    pub async fn acquire_each(&self, users: &[&Id]) -> Vec<Option<Problem>> {
        let Some(rate) = self.limit else {
            return users.iter().map(|_| None).collect();
        };
        let mut items: BTreeMap<&Id, usize> = BTreeMap::new();
        for uid in users {
            *items.entry(uid).or_default() += 1;
        }
        // The available items of each user, and the wait for one more.
        let mut available: HashMap<&Id, (usize, Duration)> = HashMap::with_capacity(items.len());
        let mut requests: Vec<GrantRequest<'_>> = Vec::with_capacity(items.len());
        for (uid, items) in items {
            let (prepaid, wait) = match self.cache.take(uid, 1, rate) {
                Ok(prepaid) => (prepaid, Duration::ZERO),
                Err(wait) => (0, wait),
            };
            if wait.is_zero() && prepaid < items {
                requests.push(GrantRequest {
                    uid,
                    min: 1,
                    max: items - prepaid + rate.prepaid(),
                });
            }
            available.insert(uid, (prepaid, wait));
        }
        let grants = self.request(&requests, rate).await;
        for (request, grant) in requests.iter().zip(grants) {
            let (items, wait) = available.entry(request.uid).or_default();
            *items += grant.items;
            *wait = rate.wait(grant.ahead, 1);
            self.cache.set_arrival(request.uid, grant.ahead);
        }
        let mut results = Vec::with_capacity(users.len());
        for uid in users {
            let (items, wait) = available.entry(uid).or_default();
            results.push((*items == 0).then(|| limit_exceeded(self.scope, *wait)));
            *items = items.saturating_sub(1);
        }
        for (at, (uid, (items, _))) in available.into_iter().enumerate() {
            self.cache.add(uid, items);
            if at < RECORDED {
                self.record(uid, rate);
            }
        }
        results
    }

    /// Requests grants from Redis, one for each request. If a node fails, its users are granted everything.
    async fn request(&self, requests: &[GrantRequest<'_>], rate: Rate) -> Vec<Grant> {
        let keys = self.store.keys();
        // In a cluster, a script uses the keys of a single partition.
        let mut groups: BTreeMap<(Partition, usize), Vec<usize>> = BTreeMap::new();
        for (index, request) in requests.iter().enumerate() {
            let group = match keys.tagged() {
                true => (keys.of_user(request.uid), 0),
                false => (0, index / USERS_PER_SCRIPT),
            };
            groups.entry(group).or_default().push(index);
        }
        let nodes = self.store.node_map();
        let calls = groups.iter().map(|((partition, _), indexes)| {
            let node = nodes.node_of(*partition);
            let group: Vec<GrantRequest<'_>> = indexes.iter().map(|i| requests[*i]).collect();
            async move { (indexes, self.request_from(node, &group, rate).await) }
        });
        let everything = |request: &GrantRequest<'_>| Grant {
            items: request.max,
            ahead: Duration::ZERO,
        };
        let mut grants: Vec<Grant> = requests.iter().map(everything).collect();
        for (indexes, granted) in join_all(calls).await {
            match granted {
                Ok(granted) => indexes
                    .iter()
                    .zip(granted)
                    .for_each(|(index, grant)| grants[*index] = grant),
                Err(error) => {
                    metrics::counter!("countd_limit_failures_total").increment(1);
                    tracing::warn!(%error, "users are not limited");
                }
            }
        }
        grants
    }

    /// Requests the grants of users on one node, unless the node is skipped.
    async fn request_from(
        &self,
        node: usize,
        requests: &[GrantRequest<'_>],
        rate: Rate,
    ) -> Result<Vec<Grant>, StoreError> {
        let unavailable = || {
            self.unavailable
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if unavailable()
            .get(&node)
            .is_some_and(|until| *until > Instant::now())
        {
            return Err(StoreError::Unexpected(
                "the node was unavailable a moment ago".to_owned(),
            ));
        }
        let granted = self.run_script(requests, rate).await;
        if let Err(StoreError::Unavailable(_)) = granted {
            unavailable().insert(node, Instant::now() + UNAVAILABLE_FOR);
        }
        granted
    }

    async fn run_script(
        &self,
        requests: &[GrantRequest<'_>],
        rate: Rate,
    ) -> Result<Vec<Grant>, StoreError> {
        let mut call = RATE_LIMIT.script.prepare_invoke();
        call.arg(rate.interval)
            .arg(rate.interval * f64::from(rate.burst));
        for request in requests {
            let key = (self.key)(&self.store.keys(), request.uid);
            call.key(key).arg(request.min).arg(request.max);
        }
        let reply: Vec<u64> = call.invoke_async(&mut self.store.commands()).await?;
        let grant = |pair: &[u64]| Grant {
            items: usize::try_from(pair[0]).unwrap_or(usize::MAX),
            ahead: Duration::from_micros(pair[1]),
        };
        Ok(reply.chunks_exact(2).map(grant).collect())
    }

    /// Evicts idle users from the cache.
    pub fn evict_idle(&self) {
        self.cache.evict_idle();
    }
}
