//! RateLimits of users, in Redis: one script for a request, with a `GET` and a `SET` for each user in it.
//!
//! A process that asks for a user takes some items more than he needs now and spends them on him without asking again, so that
//! one who is busy seldom costs a round trip. They are paid for when they are taken: all processes together never grant more than
//! the limit. What is known of a user who was refused tells when his next request will fit, so that a flood does not reach Redis. When
//! Redis cannot answer, nobody is refused: limits are no reason for not working.

use super::limited;
use super::memory::{GrantCache, Rate};
use crate::domain::config::LimitConfig;
use crate::domain::error::Problem;
use crate::domain::error::StoreError;
use crate::domain::ids::Id;
use crate::domain::keys::Partition;
use crate::redis::permissions::Permissions;
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use futures_util::future::join_all;
use std::collections::{BTreeMap, HashMap};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

static TAKE: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::new(include_str!("../../lua/rate_limit.lua")));

/// So long a server that was away is not asked.
const AWAY_FOR: Duration = Duration::from_secs(2);
/// A script looks at this many users at most: it holds up everybody else while it runs.
const USERS_AT_ONCE: usize = 200;

/// A limit of each user.
pub struct UserLimiter {
    /// `None`: there is none.
    limit: Option<Rate>,
    store: Store,
    memory: GrantCache,
    /// Where Redis could not be asked a moment ago, and until when it is not asked again: who waits for it each time waits long.
    away: Mutex<HashMap<usize, Instant>>,
}

/// A user, how many items he must get at least, and at most.
type Want<'a> = (&'a Id, usize, usize);

/// What a user gets.
#[derive(Clone, Copy)]
struct Grant {
    items: usize,
    /// By how much he is ahead of the rate then.
    ahead: Duration,
}

impl UserLimiter {
    /// The users of a store.
    pub fn new(limit: LimitConfig, store: Store) -> UserLimiter {
        UserLimiter {
            limit: limit
                .parts()
                .map(|(rate, burst)| Rate::new(rate.get(), burst.get())),
            store,
            memory: GrantCache::default(),
            away: Mutex::default(),
        }
    }

    /// The permissions that limiting users requires.
    pub fn required_permissions() -> Permissions {
        TAKE.required_permissions()
    }

    /// Takes so many items for a user, or none.
    ///
    /// # Errors
    /// As [`UserLimiter::take_all`].
    pub async fn take(&self, uid: &Id, items: usize) -> Result<(), Problem> {
        self.take_all(&BTreeMap::from([(uid.clone(), items)])).await
    }

    /// Takes so many items for each of these users, or none for any.
    ///
    /// # Errors
    /// [`Problem::Limited`]; [`Problem::TooMany`] if it will never be possible.
    pub async fn take_all(&self, users: &BTreeMap<Id, usize>) -> Result<(), Problem> {
        let Some(rate) = self.limit else {
            return Ok(());
        };
        if users.values().any(|items| *items > rate.burst as usize) {
            return Err(Problem::TooMany(rate.burst as usize));
        }
        // How many each has, and how many he needs.
        let mut has: Vec<(&Id, usize, usize)> = Vec::with_capacity(users.len());
        let mut refused: Option<Duration> = None;
        for (uid, items) in users {
            match self.memory.take(uid, *items, rate) {
                Ok(held) => has.push((uid, held, *items)),
                Err(wait) => refused = refused.max(Some(wait)),
            }
        }
        // With one who is known to be refused, nobody else is asked for.
        if refused.is_none() {
            refused = self.fill(&mut has, rate).await;
        }
        // What was granted and is not spent is paid for: it is held for the next time.
        for (uid, has, items) in has {
            let spent = if refused.is_none() { items } else { 0 };
            self.memory.hold(uid, has.saturating_sub(spent));
        }
        refused.map_or(Ok(()), |wait| Err(limited("user", wait)))
    }

    /// Gets users what they need beyond what they have, and some ahead. Says how long the one waits who waits longest.
    async fn fill(&self, has: &mut [(&Id, usize, usize)], rate: Rate) -> Option<Duration> {
        let (mut wants, mut places): (Vec<Want<'_>>, Vec<usize>) = Default::default();
        for (at, (uid, held, items)) in has.iter().enumerate() {
            let missing = items.saturating_sub(*held);
            if missing > 0 {
                wants.push((uid, missing, missing + rate.ahead()));
                places.push(at);
            }
        }
        let mut longest = None;
        let grants = self.grants(&wants, rate).await;
        for ((at, (uid, missing, _)), grant) in places.into_iter().zip(wants).zip(grants) {
            if grant.items < missing {
                longest = longest.max(Some(rate.wait(grant.ahead, missing)));
                self.memory.refuse(uid, grant.ahead);
            }
            has[at].1 += grant.items;
        }
        longest
    }

    /// Takes an item for each of these, which are users, one after the other; of one who may not have all his items, the last
    /// ones are refused. The result has an entry for each.
    pub async fn take_each(&self, users: &[&Id]) -> Vec<Option<Problem>> {
        let Some(rate) = self.limit else {
            return users.iter().map(|_| None).collect();
        };
        let mut items: BTreeMap<&Id, usize> = BTreeMap::new();
        for uid in users {
            *items.entry(uid).or_default() += 1;
        }
        // How many each has, and how long he waits for one more.
        let mut left: HashMap<&Id, (usize, Duration)> = HashMap::with_capacity(items.len());
        let mut wants: Vec<Want<'_>> = Vec::with_capacity(items.len());
        for (uid, items) in items {
            let (held, wait) = match self.memory.take(uid, 1, rate) {
                Ok(held) => (held, Duration::ZERO),
                Err(wait) => (0, wait),
            };
            if wait.is_zero() && held < items {
                wants.push((uid, 1, items - held + rate.ahead()));
            }
            left.insert(uid, (held, wait));
        }
        let grants = self.grants(&wants, rate).await;
        for ((uid, _, most), grant) in wants.iter().zip(grants) {
            let (has, wait) = left.entry(uid).or_default();
            *has += grant.items;
            *wait = rate.wait(grant.ahead, 1);
            if grant.items < most - rate.ahead() {
                self.memory.refuse(uid, grant.ahead);
            }
        }
        let mut results = Vec::with_capacity(users.len());
        for uid in users {
            let (has, wait) = left.entry(uid).or_default();
            results.push((*has == 0).then(|| limited("user", *wait)));
            *has = has.saturating_sub(1);
        }
        for (uid, (has, _)) in left {
            self.memory.hold(uid, has);
        }
        results
    }

    /// What users get, each with how many items he must get at least, and at most.
    async fn grants(&self, wants: &[Want<'_>], rate: Rate) -> Vec<Grant> {
        let keys = self.store.keys();
        // In a cluster a script has the keys of one partition.
        let mut groups: BTreeMap<(Partition, usize), Vec<usize>> = BTreeMap::new();
        for (at, (uid, ..)) in wants.iter().enumerate() {
            let group = match keys.tagged() {
                true => (keys.of_user(uid), 0),
                false => (0, at / USERS_AT_ONCE),
            };
            groups.entry(group).or_default().push(at);
        }
        let places = self.store.node_map();
        let ask = groups.iter().map(|((partition, _), membership)| {
            let place = places.node_of(*partition);
            async move { (membership, self.ask(wants, membership, rate, place).await) }
        });
        let everything = |(_, _, most): &Want<'_>| Grant {
            items: *most,
            ahead: Duration::ZERO,
        };
        let mut grants: Vec<Grant> = wants.iter().map(everything).collect();
        for (membership, found) in join_all(ask).await {
            match found {
                Ok(found) => membership
                    .iter()
                    .zip(found)
                    .for_each(|(at, grant)| grants[*at] = grant),
                Err(why) => {
                    metrics::counter!("countd_limit_failures_total").increment(1);
                    tracing::warn!(error = %why, "users are not limited");
                }
            }
        }
        grants
    }

    async fn ask(
        &self,
        wants: &[Want<'_>],
        membership: &[usize],
        rate: Rate,
        place: usize,
    ) -> Result<Vec<Grant>, StoreError> {
        let away = || self.away.lock().unwrap_or_else(PoisonError::into_inner);
        if away()
            .get(&place)
            .is_some_and(|until| *until > Instant::now())
        {
            return Err(StoreError::Unexpected(
                "it was away a moment ago".to_owned(),
            ));
        }
        let found = self.take_of(wants, membership, rate).await;
        if let Err(StoreError::Unavailable(_)) = found {
            away().insert(place, Instant::now() + AWAY_FOR);
        }
        found
    }

    async fn take_of(
        &self,
        wants: &[Want<'_>],
        membership: &[usize],
        rate: Rate,
    ) -> Result<Vec<Grant>, StoreError> {
        let mut call = TAKE.script.prepare_invoke();
        call.arg(rate.each).arg(rate.each * f64::from(rate.burst));
        for (uid, least, most) in membership.iter().map(|at| wants[*at]) {
            call.key(self.store.keys().limit(uid)).arg(least).arg(most);
        }
        let reply: Vec<u64> = call.invoke_async(&mut self.store.commands()).await?;
        let grant = |pair: &[u64]| Grant {
            items: usize::try_from(pair[0]).unwrap_or(usize::MAX),
            ahead: Duration::from_micros(pair[1]),
        };
        Ok(reply.chunks_exact(2).map(grant).collect())
    }

    /// Forgets what is over.
    pub fn forget(&self) {
        self.memory.forget();
    }
}
