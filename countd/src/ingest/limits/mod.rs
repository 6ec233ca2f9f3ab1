//! Rate limits per client address, device and user.
//!
//! All limits use GCRA (the generic cell rate algorithm, a leaky bucket as a meter): a client at or below the rate is never limited,
//! and may exceed it by the burst. Addresses are limited in each process. Users are limited in Redis, so a user has one
//! limit across all processes; devices either way.

mod error;
mod grants;
mod local;
mod rate_limits;
mod shared;
mod standing;

pub use local::{ClientKey, LocalLimiter};
pub use rate_limits::{DeviceLimiter, RateLimits};
pub use shared::{DeviceId, SharedLimiter};
pub use standing::{Standing, collect};
