//! RateLimits: how much one client address, one device and one user may do.
//!
//! All are GCRA (the generic cell rate algorithm, ITU-T I.371; also called a leaky bucket as a meter): who does not go beyond the
//! rate is never refused, and may be ahead of it by the burst. Addresses and devices are limited in this process. UserLimiter are
//! limited in Redis, so a user has one limit however many countds there are.

mod local;
mod memory;
mod users;

pub use local::{ClientKey, LocalLimiter};
pub use users::UserLimiter;

use crate::domain::config;
use crate::domain::error::Problem;
use crate::redis::store::Store;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often those are forgotten who have not been there for a while.
const FORGET: Duration = Duration::from_secs(5);

/// All limits of a process.
pub struct RateLimits {
    /// Of addresses.
    pub addresses: LocalLimiter,
    /// Of devices.
    pub devices: LocalLimiter,
    /// Of users.
    pub users: UserLimiter,
}

impl RateLimits {
    /// As configured. Within a runtime of Tokio: a task of its own keeps them small.
    pub fn new(settings: &config::LimitsConfig, store: Store) -> Arc<RateLimits> {
        let limits = Arc::new(RateLimits {
            addresses: LocalLimiter::new("address", settings.address),
            devices: LocalLimiter::new("device", settings.device),
            users: UserLimiter::new(settings.user, store),
        });
        tokio::spawn(forget(Arc::downgrade(&limits)));
        limits
    }
}

/// Until nobody has the limits any more.
async fn forget(limits: Weak<RateLimits>) {
    loop {
        tokio::time::sleep(FORGET).await;
        let Some(limits) = limits.upgrade() else {
            return;
        };
        limits.addresses.forget();
        limits.devices.forget();
        limits.users.forget();
    }
}

/// A refusal that ends after `wait`.
fn limited(of: &'static str, wait: Duration) -> Problem {
    metrics::counter!("countd_limited_total", "of" => of).increment(1);
    // Rounded up: who comes then is not refused.
    let rest = u64::from(wait.subsec_nanos() > 0);
    let retry_after = (wait.as_secs() + rest).max(1);
    Problem::Limited { of, retry_after }
}
