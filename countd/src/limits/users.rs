//! Limits of users, in Redis: one script for a request, with a `GET` and a `SET` for each user in it.
//!
//! A user who is refused is remembered here until he may come again, so that a flood does not reach Redis. When Redis cannot
//! answer, nobody is refused: limits are no reason for not working.

use super::limited;
use crate::config::Limit;
use crate::ids::Id;
use crate::keys::Partition;
use crate::service::Problem;
use crate::store::{Store, StoreError};
use futures_util::future::join_all;
use redis::Script;
use std::collections::{BTreeMap, HashMap};
use std::sync::{LazyLock, Mutex, MutexGuard};
use std::time::{Duration, Instant};

static TAKE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../lua/limit.lua")));

/// A script looks at this many users at most: it holds up everybody else while it runs.
const USERS_AT_ONCE: usize = 200;
/// So many refused users are remembered at most.
const MAX_REFUSED: usize = 100_000;

/// A limit of each user.
pub struct Users {
    /// Microseconds that an item takes, and the burst in items; `None`: there is no limit.
    limit: Option<(f64, u32)>,
    store: Store,
    refused: Mutex<HashMap<Id, Instant>>,
}

/// What a user gets.
#[derive(Clone, Copy)]
struct Grant {
    items: usize,
    /// By how much he is ahead of the rate then.
    ahead: Duration,
}

impl Users {
    /// The users of a store.
    pub fn new(limit: Limit, store: Store) -> Users {
        let parts = limit.parts();
        Users {
            limit: parts.map(|(rate, burst)| (1e6 / f64::from(rate.get()), burst.get())),
            store,
            refused: Mutex::default(),
        }
    }

    /// Takes so many items for a user, or none.
    ///
    /// # Errors
    /// [`Problem::Limited`]; [`Problem::TooMany`] if it will never be possible.
    pub async fn take(&self, uid: &Id, items: usize) -> Result<(), Problem> {
        let Some((each, burst)) = self.limit else {
            return Ok(());
        };
        if items > burst as usize {
            return Err(Problem::TooMany(burst as usize));
        }
        if let Some(wait) = self.still_refused(uid) {
            return Err(limited("user", wait));
        }
        let grants = self.grants(&[(uid, items, items)], each, burst).await;
        match grants.first() {
            Some(grant) if grant.items < items => {
                self.remember(uid, grant, each, burst);
                Err(limited("user", wait(grant, items, each, burst)))
            }
            _ => Ok(()),
        }
    }

    /// Takes an item for each of these, which are users, one after the other; of one who may not have all his items, the last
    /// ones are refused. The result has an entry for each.
    pub async fn take_each(&self, users: &[&Id]) -> Vec<Option<Problem>> {
        let Some((each, burst)) = self.limit else {
            return users.iter().map(|_| None).collect();
        };
        let mut items: BTreeMap<&Id, usize> = BTreeMap::new();
        for uid in users {
            *items.entry(uid).or_default() += 1;
        }
        let mut left: HashMap<&Id, Result<Grant, Duration>> = HashMap::new();
        let mut wants = Vec::with_capacity(items.len());
        for (uid, items) in items {
            match self.still_refused(uid) {
                Some(wait) => drop(left.insert(uid, Err(wait))),
                None => wants.push((uid, 1, items)),
            }
        }
        let grants = self.grants(&wants, each, burst).await;
        for ((uid, _, items), grant) in wants.iter().zip(grants) {
            if grant.items < *items {
                self.remember(uid, &grant, each, burst);
            }
            left.insert(uid, Ok(grant));
        }
        let one = |uid: &&Id| match left.get_mut(*uid)? {
            Ok(grant) if grant.items > 0 => {
                grant.items -= 1;
                None
            }
            Ok(grant) => Some(limited("user", wait(grant, 1, each, burst))),
            Err(wait) => Some(limited("user", *wait)),
        };
        users.iter().map(one).collect()
    }

    /// What users get, each with how many items he must get at least, and at most.
    async fn grants(&self, wants: &[(&Id, usize, usize)], each: f64, burst: u32) -> Vec<Grant> {
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
        let ask = groups
            .values()
            .map(|members| async move { (members, self.ask(wants, members, each, burst).await) });
        let everything = |(_, _, most): &(&Id, usize, usize)| Grant {
            items: *most,
            ahead: Duration::ZERO,
        };
        let mut grants: Vec<Grant> = wants.iter().map(everything).collect();
        for (members, found) in join_all(ask).await {
            match found {
                Ok(found) => members
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
        wants: &[(&Id, usize, usize)],
        members: &[usize],
        each: f64,
        burst: u32,
    ) -> Result<Vec<Grant>, StoreError> {
        let mut call = TAKE.prepare_invoke();
        call.arg(each).arg(each * f64::from(burst));
        for (uid, least, most) in members.iter().map(|at| wants[*at]) {
            call.key(self.store.keys().limit(uid)).arg(least).arg(most);
        }
        let reply: Vec<u64> = call.invoke_async(&mut self.store.commands()).await?;
        let grant = |pair: &[u64]| Grant {
            items: usize::try_from(pair[0]).unwrap_or(usize::MAX),
            ahead: Duration::from_micros(pair[1]),
        };
        Ok(reply.chunks_exact(2).map(grant).collect())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Id, Instant>> {
        self.refused
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn still_refused(&self, uid: &Id) -> Option<Duration> {
        let until = *self.lock().get(uid)?;
        let wait = until.saturating_duration_since(Instant::now());
        (!wait.is_zero()).then_some(wait)
    }

    /// Until he may have one item again.
    fn remember(&self, uid: &Id, grant: &Grant, each: f64, burst: u32) {
        let wait = wait(grant, 1, each, burst);
        let mut refused = self.lock();
        if !wait.is_zero() && (refused.len() < MAX_REFUSED || refused.contains_key(uid)) {
            refused.insert(uid.clone(), Instant::now() + wait);
        }
    }

    /// Forgets who is not refused any more.
    pub fn forget(&self) {
        let now = Instant::now();
        self.lock().retain(|_, until| *until > now);
    }
}

/// How long until so many items fit.
fn wait(grant: &Grant, items: usize, each: f64, burst: u32) -> Duration {
    let over = grant.ahead.as_secs_f64() * 1e6 + (items as f64 - f64::from(burst)) * each;
    Duration::from_secs_f64(over.max(0.0) / 1e6)
}
