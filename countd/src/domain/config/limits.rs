//! `[limits]`: rate limits.

use super::error::{ConfigError, invalid};
use ipnet::IpNet;
use serde::{Deserialize, Deserializer};
use std::net::IpAddr;
use std::num::NonZeroU32;

/// `[limits]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsConfig {
    /// The limit of each client address.
    pub address: LimitConfig,
    /// The limit of each device, identified by a header.
    pub device: DeviceLimitConfig,
    /// The limit of each user.
    pub user: LimitConfig,
    /// The header that identifies the device.
    pub device_header: String,
    /// Addresses without a limit, unless they are trusted proxies.
    #[serde(deserialize_with = "networks")]
    pub exempt: Vec<IpNet>,
    /// Proxies whose `X-Forwarded-For` header is trusted.
    #[serde(deserialize_with = "networks")]
    pub trusted_proxies: Vec<IpNet>,
}

/// A rate and a burst.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitConfig {
    /// Items per second: 1 to 1,000,000; 0 disables the limit.
    pub per_second: u32,
    /// Items at once: 1 to 1,000,000.
    pub burst: u32,
}

/// The limit of a device.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceLimitConfig {
    /// As in [`LimitConfig`].
    pub per_second: u32,
    /// As in [`LimitConfig`].
    pub burst: u32,
    /// Whether all processes share the limit, in Redis.
    #[serde(default)]
    pub shared: bool,
}

impl DeviceLimitConfig {
    /// The rate and the burst.
    pub fn limit(&self) -> LimitConfig {
        let DeviceLimitConfig {
            per_second, burst, ..
        } = *self;
        LimitConfig { per_second, burst }
    }
}

/// The maximum rate and burst. Limits are computed in microseconds.
const MAX: u32 = 1_000_000;

impl LimitConfig {
    /// The rate and the burst; `None` if the limit is disabled.
    pub fn rate_and_burst(&self) -> Option<(NonZeroU32, NonZeroU32)> {
        Some((
            NonZeroU32::new(self.per_second)?,
            NonZeroU32::new(self.burst)?,
        ))
    }

    fn validate(&self, setting: &str) -> Result<(), ConfigError> {
        if self.per_second > MAX || !(1..=MAX).contains(&self.burst) {
            let problem = format!("per_second must be 0 (no limit) to {MAX}, burst 1 to {MAX}");
            return Err(invalid(setting, problem));
        }
        Ok(())
    }
}

impl LimitsConfig {
    /// Whether any client is limited.
    pub fn is_enabled(&self) -> bool {
        [self.address, self.device.limit(), self.user]
            .iter()
            .any(|limit| limit.rate_and_burst().is_some())
    }

    /// Whether a limit is kept in Redis.
    pub fn uses_redis(&self) -> bool {
        let devices = self.device.shared && self.device.limit().rate_and_burst().is_some();
        devices || self.user.rate_and_burst().is_some()
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        self.address.validate("limits.address")?;
        self.device.limit().validate("limits.device")?;
        self.user.validate("limits.user")?;
        match ::http::HeaderName::try_from(&self.device_header) {
            Ok(_) => Ok(()),
            Err(error) => Err(invalid("limits.device_header", error.to_string())),
        }
    }
}

/// Networks such as `10.0.0.0/8`, and single addresses.
fn networks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<IpNet>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    let parse = |text: String| {
        let address = text.parse::<IpAddr>().map(IpNet::from);
        address.or_else(|_| text.parse::<IpNet>()).map_err(|_| {
            serde::de::Error::custom(format!("{text} is not an IP address or network"))
        })
    };
    texts.into_iter().map(parse).collect()
}
