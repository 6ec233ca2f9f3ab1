//! The limiters of a process.

use super::local::LocalLimiter;
use super::shared::SharedLimiter;
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
    pub devices: DeviceLimiter,
    /// Limits users.
    pub users: SharedLimiter,
}

/// The limiter of devices.
pub enum DeviceLimiter {
    /// Each process has its own limits.
    Local(LocalLimiter),
    /// All processes share the limits.
    Shared(Box<SharedLimiter>),
}

impl RateLimits {
    /// Creates the configured limiters. Must be called in a Tokio runtime: a background task evicts idle clients.
    pub fn new(settings: &LimitsConfig, store: Store) -> Arc<RateLimits> {
        let device = settings.device.limit();
        let devices = match settings.device.shared {
            false => DeviceLimiter::Local(LocalLimiter::new("device", device)),
            true => {
                DeviceLimiter::Shared(Box::new(SharedLimiter::of_devices(device, store.clone())))
            }
        };
        let limits = Arc::new(RateLimits {
            addresses: LocalLimiter::new("address", settings.address),
            devices,
            users: SharedLimiter::of_users(settings.user, store),
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
        match &limits.devices {
            DeviceLimiter::Local(devices) => devices.evict_idle(),
            DeviceLimiter::Shared(devices) => devices.evict_idle(),
        }
        limits.users.evict_idle();
    }
}
