//! The limiters of a process.

use super::local::LocalLimiter;
use super::users::UserLimiter;
use crate::domain::config::LimitsConfig;
use crate::redis::store::Store;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The interval at which idle clients are evicted.
const EVICTION_INTERVAL: Duration = Duration::from_secs(5);

/// All limiters of a process.
pub struct RateLimits {
    /// Limits client addresses.
    pub addresses: LocalLimiter,
    /// Limits devices.
    pub devices: LocalLimiter,
    /// Limits users.
    pub users: UserLimiter,
}

impl RateLimits {
    /// Creates the configured limiters. Must be called in a Tokio runtime: a background task evicts idle clients.
    pub fn new(settings: &LimitsConfig, store: Store) -> Arc<RateLimits> {
        let limits = Arc::new(RateLimits {
            addresses: LocalLimiter::new("address", settings.address),
            devices: LocalLimiter::new("device", settings.device),
            users: UserLimiter::new(settings.user, store),
        });
        tokio::spawn(evict_idle(Arc::downgrade(&limits)));
        limits
    }
}

/// Runs until the limiters are dropped.
async fn evict_idle(limits: Weak<RateLimits>) {
    loop {
        tokio::time::sleep(EVICTION_INTERVAL).await;
        let Some(limits) = limits.upgrade() else {
            return;
        };
        limits.addresses.evict_idle();
        limits.devices.evict_idle();
        limits.users.evict_idle();
    }
}
