//! Rate limits in the memory of this process.

use super::error::limit_exceeded;
use super::standing::{self, Standing};
use crate::domain::config::LimitConfig;
use crate::domain::error::Problem;
use governor::clock::{Clock, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};
use std::hash::{BuildHasher, Hash, RandomState};
use std::num::NonZeroU32;

type KeyedLimiter =
    RateLimiter<u64, DashMapStateStore<u64>, DefaultClock, StateInformationMiddleware>;

/// A rate limiter keyed by client. It uses about 50 bytes per recent client.
pub struct LocalLimiter {
    scope: &'static str,
    /// `None` if the limit is disabled.
    limiter: Option<KeyedLimiter>,
    limit: LimitConfig,
    clock: DefaultClock,
    hasher: RandomState,
}

/// A client, as a randomly seeded hash of its name. Its size does not depend on the length of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientKey(u64);

impl LocalLimiter {
    /// Creates a limiter. `scope` names the kind of clients in errors and metrics.
    pub fn new(scope: &'static str, limit: LimitConfig) -> LocalLimiter {
        let quota = limit
            .rate_and_burst()
            .map(|(rate, burst)| Quota::per_second(rate).allow_burst(burst));
        LocalLimiter {
            scope,
            limiter: quota.map(|quota| RateLimiter::dashmap(quota).with_middleware()),
            limit,
            clock: DefaultClock::default(),
            hasher: RandomState::new(),
        }
    }

    /// The key of a client, such as an address or a device ID.
    pub fn key(&self, client: impl Hash) -> ClientKey {
        ClientKey(self.hasher.hash_one(client))
    }

    /// Acquires all of `items`, or none.
    ///
    /// # Errors
    /// [`Problem::Limited`], or [`Problem::TooMany`] if `items` exceeds the burst.
    pub fn acquire(&self, ClientKey(client): ClientKey, items: usize) -> Result<(), Problem> {
        let (Some(limiter), true) = (&self.limiter, items > 0) else {
            return Ok(());
        };
        let too_many = || Problem::TooMany(self.limit.burst as usize);
        let count = u32::try_from(items).ok().and_then(NonZeroU32::new);
        let acquired = limiter.check_key_n(&client, count.ok_or_else(too_many)?);
        match acquired.map_err(|_| too_many())? {
            Ok(state) => {
                self.record(state.remaining_burst_capacity());
                Ok(())
            }
            Err(not_until) => {
                self.record(0);
                let wait = not_until.wait_time_from(self.clock.now());
                Err(limit_exceeded(self.scope, wait))
            }
        }
    }

    fn record(&self, remaining: u32) {
        let LimitConfig { per_second, burst } = self.limit;
        standing::record(Standing {
            scope: self.scope,
            burst,
            per_second,
            remaining,
        });
    }

    /// Acquires the items of a request except the first, which has been acquired with its headers.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub fn acquire_rest(&self, client: ClientKey, items: usize) -> Result<(), Problem> {
        if self.limiter.is_some() && items > self.limit.burst as usize {
            return Err(Problem::TooMany(self.limit.burst as usize));
        }
        self.acquire(client, items.saturating_sub(1))
    }

    /// Evicts clients whose full burst is available again.
    pub fn evict_idle(&self) {
        if let Some(limiter) = &self.limiter {
            limiter.retain_recent();
            limiter.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(per_second: u32, burst: u32) -> LocalLimiter {
        LocalLimiter::new("address", LimitConfig { per_second, burst })
    }

    #[test]
    fn each_client_has_its_own_burst() {
        let limiter = limiter(1, 5);
        let (one, other) = (limiter.key("one"), limiter.key("other"));
        assert!(limiter.acquire(one, 4).is_ok());
        let limited = limiter.acquire(one, 4);
        assert!(matches!(
            limited,
            Err(Problem::Limited {
                scope: "address",
                retry_after: 1..=3
            })
        ));
        assert!(limiter.acquire(other, 5).is_ok());
        assert!(matches!(
            limiter.acquire(other, 6),
            Err(Problem::TooMany(5))
        ));
        assert!(matches!(
            limiter.acquire_rest(other, 6),
            Err(Problem::TooMany(5))
        ));
        limiter.evict_idle();
        assert!(
            limiter.acquire(other, 5).is_err(),
            "a recent client is not evicted"
        );
    }

    #[test]
    fn a_rate_of_zero_disables_the_limit() {
        let limiter = limiter(0, 1);
        assert!((0..1_000).all(|_| limiter.acquire(limiter.key(1), 1_000).is_ok()));
    }
}
