//! RateLimits in the memory of this process.

use super::limited;
use crate::domain::config::LimitConfig;
use crate::domain::error::Problem;
use governor::clock::{Clock, DefaultClock};
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};
use std::hash::{BuildHasher, Hash, RandomState};
use std::num::NonZeroU32;

/// A limit of each of many clients. It holds some 50 bytes for each one that was there lately.
pub struct LocalLimiter {
    of: &'static str,
    /// `None`: there is no limit.
    limiter: Option<RateLimiter<u64, DashMapStateStore<u64>, DefaultClock>>,
    burst: u32,
    clock: DefaultClock,
    hasher: RandomState,
}

/// A client, by a hash that nobody outside can foresee: what is kept is as small for long names as for short ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientKey(u64);

impl LocalLimiter {
    /// `of`: what the clients are.
    pub fn new(of: &'static str, limit: LimitConfig) -> LocalLimiter {
        let quota = limit
            .parts()
            .map(|(rate, burst)| Quota::per_second(rate).allow_burst(burst));
        LocalLimiter {
            of,
            limiter: quota.map(RateLimiter::dashmap),
            burst: limit.burst,
            clock: DefaultClock::default(),
            hasher: RandomState::new(),
        }
    }

    /// A client by what names it.
    pub fn who(&self, name: impl Hash) -> ClientKey {
        ClientKey(self.hasher.hash_one(name))
    }

    /// Takes so many items, or none.
    ///
    /// # Errors
    /// [`Problem::Limited`]; [`Problem::TooMany`] if it will never be possible.
    pub fn take(&self, ClientKey(client): ClientKey, items: usize) -> Result<(), Problem> {
        let (Some(limiter), true) = (&self.limiter, items > 0) else {
            return Ok(());
        };
        let too_many = || Problem::TooMany(self.burst as usize);
        let count = u32::try_from(items).ok().and_then(NonZeroU32::new);
        let taken = limiter.check_key_n(&client, count.ok_or_else(too_many)?);
        match taken.map_err(|_| too_many())? {
            Ok(()) => Ok(()),
            Err(not_yet) => Err(limited(self.of, not_yet.wait_time_from(self.clock.now()))),
        }
    }

    /// Takes the items of a request beyond the first, which is taken already, or none.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn take_rest(&self, client: ClientKey, items: usize) -> Result<(), Problem> {
        if self.limiter.is_some() && items > self.burst as usize {
            return Err(Problem::TooMany(self.burst as usize));
        }
        self.take(client, items.saturating_sub(1))
    }

    /// Forgets who may be ahead by the whole burst again.
    pub fn forget(&self) {
        if let Some(limiter) = &self.limiter {
            limiter.retain_recent();
            limiter.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(per_second: u32, burst: u32) -> LocalLimiter {
        LocalLimiter::new("address", LimitConfig { per_second, burst })
    }

    #[test]
    fn each_client_has_its_own_burst() {
        let local = local(1, 5);
        let (one, other) = (local.who("one"), local.who("other"));
        assert!(local.take(one, 4).is_ok());
        let refused = local.take(one, 4);
        assert!(matches!(
            refused,
            Err(Problem::Limited {
                of: "address",
                retry_after: 1..=3
            })
        ));
        assert!(local.take(other, 5).is_ok());
        assert!(matches!(local.take(other, 6), Err(Problem::TooMany(5))));
        assert!(matches!(
            local.take_rest(other, 6),
            Err(Problem::TooMany(5))
        ));
        local.forget();
        assert!(
            local.take(other, 5).is_err(),
            "who was there just now is not forgotten"
        );
    }

    #[test]
    fn no_rate_is_no_limit() {
        let local = local(0, 1);
        assert!((0..1_000).all(|_| local.take(local.who(1), 1_000).is_ok()));
    }
}
