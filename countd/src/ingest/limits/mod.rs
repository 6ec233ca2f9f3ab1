//! Limits: how much one client address, one device and one user may do.
//!
//! All are GCRA (the generic cell rate algorithm, ITU-T I.371; also called a leaky bucket as a meter): who does not go beyond the
//! rate is never refused, and may be ahead of it by the burst. Addresses and devices are limited in this process. Users are
//! limited in Redis, so a user has one limit however many countds there are.

mod local;
mod memory;
mod users;

pub use local::{Local, Who};
pub use users::Users;

use crate::domain::config;
use crate::domain::error::Problem;
use crate::redis::store::Store;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often those are forgotten who have not been there for a while.
const FORGET: Duration = Duration::from_secs(5);

/// All limits of a process.
pub struct Limits {
    /// Of addresses.
    pub addresses: Local,
    /// Of devices.
    pub devices: Local,
    /// Of users.
    pub users: Users,
}

impl Limits {
    /// As configured. Within a runtime of Tokio: a task of its own keeps them small.
    pub fn new(settings: &config::Limits, store: Store) -> Arc<Limits> {
        let limits = Arc::new(Limits {
            addresses: Local::new("address", settings.address),
            devices: Local::new("device", settings.device),
            users: Users::new(settings.user, store),
        });
        tokio::spawn(forget(Arc::downgrade(&limits)));
        limits
    }
}

/// Until nobody has the limits any more.
async fn forget(limits: Weak<Limits>) {
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
