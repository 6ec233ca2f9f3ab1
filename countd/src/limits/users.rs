//! Limits of users, in Redis: one script for a request, with a `GET` and a `SET` for each user in it.
//!
//! A process that asks for a user takes some items more than he needs now and spends them on him without asking again, so that
//! one who is busy seldom costs a round trip. They are paid for when they are taken: all processes together never grant more than
//! the limit. A user who is refused is remembered until he may come again, so that a flood does not reach Redis. When Redis
//! cannot answer, nobody is refused: limits are no reason for not working.

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
/// So many users are remembered at most.
const MAX_KNOWN: usize = 100_000;
/// A process takes the burst's part of this size ahead for a user. What it does not spend in time is lost to him.
const AHEAD: u32 = 50;
const AHEAD_FOR: Duration = Duration::from_secs(10);

/// A limit of each user.
pub struct Users {
    /// `None`: there is none.
    limit: Option<Rate>,
    store: Store,
    known: Mutex<HashMap<Id, Known>>,
}

/// A rate, and how far one may be ahead of it.
#[derive(Clone, Copy)]
struct Rate {
    /// Microseconds that an item takes.
    each: f64,
    /// Items.
    burst: u32,
}

/// What is known of a user in this process, until then.
enum Known {
    /// He is refused.
    Refused(Instant),
    /// He has so many items that are paid for.
    Holds(usize, Instant),
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

impl Users {
    /// The users of a store.
    pub fn new(limit: Limit, store: Store) -> Users {
        let rate = limit.parts().map(|(rate, burst)| Rate {
            each: 1e6 / f64::from(rate.get()),
            burst: burst.get(),
        });
        Users {
            limit: rate,
            store,
            known: Mutex::default(),
        }
    }

    /// Takes so many items for a user, or none.
    ///
    /// # Errors
    /// As [`Users::take_all`].
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
            match self.held(uid) {
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
            self.hold(uid, has - spent);
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
                longest = longest.max(Some(rate.wait(&grant, missing)));
                if has[at].1 == 0 {
                    self.refuse(uid, rate.wait(&grant, 1));
                }
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
            let (held, wait) = match self.held(uid) {
                Ok(held) => (held, Duration::ZERO),
                Err(wait) => (0, wait),
            };
            if wait.is_zero() && held < items {
                wants.push((uid, 1, items - held + rate.ahead()));
            }
            left.insert(uid, (held, wait));
        }
        let grants = self.grants(&wants, rate).await;
        for ((uid, ..), grant) in wants.iter().zip(grants) {
            let (has, wait) = left.entry(uid).or_default();
            *has += grant.items;
            *wait = rate.wait(&grant, 1);
        }
        let mut results = Vec::with_capacity(users.len());
        for uid in users {
            let (has, wait) = left.entry(uid).or_default();
            results.push((*has == 0).then(|| limited("user", *wait)));
            *has = has.saturating_sub(1);
            if results.last().is_some_and(Option::is_some) {
                self.refuse(uid, *wait);
            }
        }
        for (uid, (has, _)) in left {
            self.hold(uid, has);
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
        let ask = groups
            .values()
            .map(|members| async move { (members, self.ask(wants, members, rate).await) });
        let everything = |(_, _, most): &Want<'_>| Grant {
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
        wants: &[Want<'_>],
        members: &[usize],
        rate: Rate,
    ) -> Result<Vec<Grant>, StoreError> {
        let mut call = TAKE.prepare_invoke();
        call.arg(rate.each).arg(rate.each * f64::from(rate.burst));
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

    fn lock(&self) -> MutexGuard<'_, HashMap<Id, Known>> {
        self.known
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes what he has that is paid for, or says how long he is refused.
    fn held(&self, uid: &Id) -> Result<usize, Duration> {
        let (mut known, now) = (self.lock(), Instant::now());
        match known.remove(uid) {
            Some(Known::Refused(until)) if until > now => {
                known.insert(uid.clone(), Known::Refused(until));
                Err(until - now)
            }
            Some(Known::Holds(items, until)) if until > now => Ok(items),
            _ => Ok(0),
        }
    }

    /// Gives back what he has not used.
    fn hold(&self, uid: &Id, items: usize) {
        if items == 0 {
            return;
        }
        let mut known = self.lock();
        if let Some(Known::Holds(others, _)) = known.get_mut(uid) {
            *others += items;
        } else if known.len() < MAX_KNOWN || known.contains_key(uid) {
            let until = Instant::now() + AHEAD_FOR;
            known.insert(uid.clone(), Known::Holds(items, until));
        }
    }

    /// Until he may have one item again.
    fn refuse(&self, uid: &Id, wait: Duration) {
        let mut known = self.lock();
        let is_new = !known.contains_key(uid);
        if wait.is_zero() || is_new && known.len() >= MAX_KNOWN {
            return;
        }
        if !matches!(known.get(uid), Some(Known::Holds(..))) {
            known.insert(uid.clone(), Known::Refused(Instant::now() + wait));
        }
    }

    /// Forgets what is over.
    pub fn forget(&self) {
        let now = Instant::now();
        self.lock().retain(|_, known| match known {
            Known::Refused(until) | Known::Holds(_, until) => *until > now,
        });
    }
}

impl Rate {
    /// How many items are taken ahead.
    fn ahead(&self) -> usize {
        (self.burst / AHEAD) as usize
    }

    /// How long until so many items fit.
    fn wait(&self, grant: &Grant, items: usize) -> Duration {
        let free = f64::from(self.burst) - items as f64;
        let over = grant.ahead.as_secs_f64() * 1e6 - free * self.each;
        Duration::from_secs_f64(over.max(0.0) / 1e6)
    }
}
