//! What a process knows of users without asking Redis: what they hold that is paid for, and until when they are refused.

use crate::domain::ids::Id;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// So many users are remembered at most.
const MAX_KNOWN: usize = 100_000;
/// A process takes the burst's part of this size ahead for a user. What it does not spend in time is lost to him.
const AHEAD: u32 = 50;
const AHEAD_FOR: Duration = Duration::from_secs(10);

/// A rate, and how far one may be ahead of it.
#[derive(Clone, Copy)]
pub struct Rate {
    /// Microseconds that an item takes.
    pub each: f64,
    /// Items.
    pub burst: u32,
}

impl Rate {
    /// Of items a second, and items at once.
    pub fn new(per_second: u32, burst: u32) -> Rate {
        let each = 1e6 / f64::from(per_second);
        Rate { each, burst }
    }

    /// How many items are taken ahead.
    pub fn ahead(&self) -> usize {
        (self.burst / AHEAD) as usize
    }

    /// How long until so many items fit for one who is so far ahead of the rate.
    pub fn wait(&self, ahead: Duration, items: usize) -> Duration {
        let free = f64::from(self.burst) - items as f64;
        let over = ahead.as_secs_f64() * 1e6 - free * self.each;
        Duration::from_secs_f64(over.max(0.0) / 1e6)
    }
}

/// What is known of a user.
struct CachedGrant {
    /// Items that are paid for, and until when he has them.
    held: (usize, Instant),
    /// When he will be even with the rate, as it was when he was refused. Others may have made it later since, never earlier.
    even: Instant,
}

/// What is known of users.
#[derive(Default)]
pub struct GrantCache(Mutex<HashMap<Id, CachedGrant>>);

impl GrantCache {
    fn lock(&self) -> MutexGuard<'_, HashMap<Id, CachedGrant>> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes what a user holds, all of it, if so many items may fit.
    ///
    /// # Errors
    /// They do not, for so long at least. He still holds what he held.
    pub fn take(&self, uid: &Id, items: usize, rate: Rate) -> Result<usize, Duration> {
        let (mut known, now) = (self.lock(), Instant::now());
        let Some(of_him) = known.get_mut(uid) else {
            return Ok(0);
        };
        let (held, until) = of_him.held;
        let held = if until > now { held } else { 0 };
        let missing = items.saturating_sub(held);
        let wait = rate.wait(of_him.even.saturating_duration_since(now), missing);
        if missing > 0 && !wait.is_zero() {
            return Err(wait);
        }
        of_him.held.0 = 0;
        Ok(held)
    }

    /// Gives a user what he has not spent.
    pub fn hold(&self, uid: &Id, items: usize) {
        if items == 0 {
            return;
        }
        let now = Instant::now();
        self.with(uid, now, |of_him| {
            let others = if of_him.held.1 > now {
                of_him.held.0
            } else {
                0
            };
            of_him.held = (others + items, now + AHEAD_FOR);
        });
    }

    /// A user was refused, and is so far ahead of the rate.
    pub fn refuse(&self, uid: &Id, ahead: Duration) {
        let now = Instant::now();
        self.with(uid, now, |of_him| of_him.even = now + ahead);
    }

    /// Changes what is known of a user, if there is a place for him.
    fn with(&self, uid: &Id, now: Instant, change: impl FnOnce(&mut CachedGrant)) {
        let mut known = self.lock();
        if known.len() >= MAX_KNOWN && !known.contains_key(uid) {
            return;
        }
        let nothing = CachedGrant {
            held: (0, now),
            even: now,
        };
        change(known.entry(uid.clone()).or_insert(nothing));
    }

    /// Forgets what is over.
    pub fn forget(&self) {
        let now = Instant::now();
        self.lock().retain(|_, known| {
            let (held, until) = known.held;
            held > 0 && until > now || known.even > now
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One item takes an hour: no time passes in the test.
    const RATE: Rate = Rate {
        each: 3.6e9,
        burst: 10,
    };
    const HOUR: Duration = Duration::from_secs(3_600);

    fn uid() -> Id {
        Id::new("42").expect("an id")
    }

    #[test]
    fn who_was_refused_is_so_until_what_he_asks_for_fits() {
        let (memory, uid) = (GrantCache::default(), uid());
        assert_eq!(
            memory.take(&uid, 10, RATE),
            Ok(0),
            "nothing is known of him"
        );
        // Seven of ten are used up: three fit.
        memory.refuse(&uid, 7 * HOUR);
        assert_eq!(memory.take(&uid, 3, RATE), Ok(0));
        for items in [4, 5, 10] {
            let wait = memory.take(&uid, items, RATE).expect_err("too many");
            let hours = wait.as_secs_f64() / 3_600.0;
            let expected = (items - 3) as f64;
            assert!((hours - expected).abs() < 0.1, "{items}: {hours} hours");
        }
    }

    #[test]
    fn what_is_held_counts_and_stays_where_it_is_not_enough() {
        let (memory, uid) = (GrantCache::default(), uid());
        memory.hold(&uid, 2);
        memory.refuse(&uid, 10 * HOUR);
        assert!(memory.take(&uid, 3, RATE).is_err());
        memory.hold(&uid, 1);
        assert_eq!(memory.take(&uid, 3, RATE), Ok(3));
        assert!(memory.take(&uid, 1, RATE).is_err(), "it is spent");
    }

    #[test]
    fn what_is_over_is_forgotten() {
        let (memory, uid) = (GrantCache::default(), uid());
        memory.refuse(&uid, Duration::ZERO);
        memory.forget();
        assert!(memory.lock().is_empty());
        memory.hold(&uid, 1);
        memory.forget();
        assert_eq!(memory.lock().len(), 1);
    }
}
