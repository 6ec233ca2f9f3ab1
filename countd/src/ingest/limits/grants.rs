//! The local state of user limits: prepaid items, and users known to be limited.

use crate::domain::ids::Id;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The maximum number of users in the cache.
const MAX_USERS: usize = 100_000;
/// A process prepays a fiftieth of the burst for a user. Items that are not spent in time are lost.
const PREPAID_FRACTION: u32 = 50;
const PREPAID_TTL: Duration = Duration::from_secs(10);

/// A rate and a burst.
#[derive(Clone, Copy)]
pub struct Rate {
    /// The emission interval of GCRA: microseconds per item.
    pub interval: f64,
    /// The maximum number of items at once.
    pub burst: u32,
    /// Items per second.
    pub per_second: u32,
}

impl Rate {
    /// A rate in items per second, and a burst in items.
    pub fn new(per_second: u32, burst: u32) -> Rate {
        let interval = 1e6 / f64::from(per_second);
        Rate {
            interval,
            burst,
            per_second,
        }
    }

    /// The number of items to prepay.
    pub fn prepaid(&self) -> usize {
        (self.burst / PREPAID_FRACTION) as usize
    }

    /// The time until `items` can be granted to a user whose theoretical arrival time is `ahead` of the clock.
    pub fn wait(&self, ahead: Duration, items: usize) -> Duration {
        let tolerance = (f64::from(self.burst) - items as f64) * self.interval;
        let excess = ahead.as_secs_f64() * 1e6 - tolerance;
        Duration::from_secs_f64(excess.max(0.0) / 1e6)
    }
}

/// The cached state of a user.
struct CachedGrant {
    /// The number of prepaid items.
    prepaid: usize,
    /// When the prepaid items expire.
    expires: Instant,
    /// The theoretical arrival time after the last grant or refusal. Other processes can only have moved it later.
    arrival: Instant,
}

impl CachedGrant {
    fn prepaid_at(&self, now: Instant) -> usize {
        if self.expires > now { self.prepaid } else { 0 }
    }
}

/// The cached state of users.
#[derive(Default)]
pub struct GrantCache(Mutex<HashMap<Id, CachedGrant>>);

impl GrantCache {
    fn lock(&self) -> MutexGuard<'_, HashMap<Id, CachedGrant>> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes all prepaid items of a user, if `items` may fit the limit.
    ///
    /// # Errors
    /// The minimum time until `items` fit. The user keeps the prepaid items.
    pub fn take(&self, uid: &Id, items: usize, rate: Rate) -> Result<usize, Duration> {
        let (mut users, now) = (self.lock(), Instant::now());
        let Some(user) = users.get_mut(uid) else {
            return Ok(0);
        };
        let prepaid = user.prepaid_at(now);
        let missing = items.saturating_sub(prepaid);
        let wait = rate.wait(user.arrival.saturating_duration_since(now), missing);
        if missing > 0 && !wait.is_zero() {
            return Err(wait);
        }
        user.prepaid = 0;
        Ok(prepaid)
    }

    /// Adds prepaid items of a user.
    pub fn add(&self, uid: &Id, items: usize) {
        if items == 0 {
            return;
        }
        let now = Instant::now();
        self.update(uid, now, |user| {
            user.prepaid = user.prepaid_at(now) + items;
            user.expires = now + PREPAID_TTL;
        });
    }

    /// The maximum number of items that a user has left: prepaid items, and the rest of the burst by the last known state. `None` for an
    /// unknown user.
    pub fn remaining(&self, uid: &Id, rate: Rate) -> Option<u32> {
        let (users, now) = (self.lock(), Instant::now());
        let user = users.get(uid)?;
        let ahead = user.arrival.saturating_duration_since(now).as_secs_f64() * 1e6;
        let free = (f64::from(rate.burst) - ahead / rate.interval).max(0.0) as usize;
        let remaining = free.saturating_add(user.prepaid_at(now));
        Some(u32::try_from(remaining).map_or(rate.burst, |remaining| remaining.min(rate.burst)))
    }

    /// Records the theoretical arrival time of a user: `ahead` of now.
    pub fn set_arrival(&self, uid: &Id, ahead: Duration) {
        let now = Instant::now();
        self.update(uid, now, |user| user.arrival = now + ahead);
    }

    /// Updates the state of a user, unless the cache is full.
    fn update(&self, uid: &Id, now: Instant, update: impl FnOnce(&mut CachedGrant)) {
        let mut users = self.lock();
        if users.len() >= MAX_USERS && !users.contains_key(uid) {
            return;
        }
        let empty = CachedGrant {
            prepaid: 0,
            expires: now,
            arrival: now,
        };
        update(users.entry(uid.clone()).or_insert(empty));
    }

    /// Evicts users without prepaid items who are not limited.
    pub fn evict_idle(&self) {
        let now = Instant::now();
        self.lock()
            .retain(|_, user| user.prepaid_at(now) > 0 || user.arrival > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An item takes an hour, so the duration of the test does not matter.
    const RATE: Rate = Rate {
        interval: 3.6e9,
        burst: 10,
        per_second: 1,
    };
    const HOUR: Duration = Duration::from_secs(3_600);

    fn uid() -> Id {
        Id::new("42").expect("an ID")
    }

    #[test]
    fn a_user_is_limited_until_the_items_fit() {
        let (cache, uid) = (GrantCache::default(), uid());
        assert_eq!(cache.take(&uid, 10, RATE), Ok(0), "an unknown user");
        // Seven of ten are used: three fit.
        cache.set_arrival(&uid, 7 * HOUR);
        assert_eq!(cache.take(&uid, 3, RATE), Ok(0));
        for items in [4, 5, 10] {
            let wait = cache.take(&uid, items, RATE).expect_err("too many");
            let hours = wait.as_secs_f64() / 3_600.0;
            let expected = (items - 3) as f64;
            assert!((hours - expected).abs() < 0.1, "{items}: {hours} hours");
        }
    }

    #[test]
    fn prepaid_items_are_used_and_kept_if_they_are_too_few() {
        let (cache, uid) = (GrantCache::default(), uid());
        cache.add(&uid, 2);
        cache.set_arrival(&uid, 10 * HOUR);
        assert!(cache.take(&uid, 3, RATE).is_err());
        cache.add(&uid, 1);
        assert_eq!(cache.take(&uid, 3, RATE), Ok(3));
        assert!(cache.take(&uid, 1, RATE).is_err(), "all are spent");
    }

    #[test]
    fn idle_users_are_evicted() {
        let (cache, uid) = (GrantCache::default(), uid());
        cache.set_arrival(&uid, Duration::ZERO);
        cache.evict_idle();
        assert!(cache.lock().is_empty());
        cache.add(&uid, 1);
        cache.evict_idle();
        assert_eq!(cache.lock().len(), 1);
    }
}
