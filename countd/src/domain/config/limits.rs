//! `[limits]`: how much one client may do.

use super::{ConfigError, invalid};
use ipnet::IpNet;
use serde::{Deserialize, Deserializer};
use std::net::IpAddr;
use std::num::NonZeroU32;

/// `[limits]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsConfig {
    /// Of each client's address.
    pub address: LimitConfig,
    /// Of each device, by the header that names it.
    pub device: LimitConfig,
    /// Of each user who acts or asks.
    pub user: LimitConfig,
    /// The header that names the device.
    pub device_header: String,
    /// Addresses that have no limit, unless they are trusted proxies.
    #[serde(deserialize_with = "networks")]
    pub exempt: Vec<IpNet>,
    /// Proxies whose `X-Forwarded-For` is believed.
    #[serde(deserialize_with = "networks")]
    pub trusted_proxies: Vec<IpNet>,
}

/// A rate, and how far one may be ahead of it.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitConfig {
    /// Items a second: 1 to 1,000,000; 0 for no limit.
    pub per_second: u32,
    /// Items at once: 1 to 1,000,000.
    pub burst: u32,
}

/// The greatest rate and the greatest burst. Microseconds are what limits reckon in.
const MAX: u32 = 1_000_000;

impl LimitConfig {
    /// The rate and the burst, if there is a limit.
    pub fn parts(&self) -> Option<(NonZeroU32, NonZeroU32)> {
        Some((
            NonZeroU32::new(self.per_second)?,
            NonZeroU32::new(self.burst)?,
        ))
    }

    fn check(&self, setting: &str) -> Result<(), ConfigError> {
        if self.per_second > MAX || !(1..=MAX).contains(&self.burst) {
            let problem = format!("per_second is 0 (no limit) to {MAX}, burst 1 to {MAX}");
            return Err(invalid(setting, problem));
        }
        Ok(())
    }
}

impl LimitsConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.address.check("limits.address")?;
        self.device.check("limits.device")?;
        self.user.check("limits.user")?;
        match axum::http::HeaderName::try_from(&self.device_header) {
            Ok(_) => Ok(()),
            Err(why) => Err(invalid("limits.device_header", why.to_string())),
        }
    }
}

/// Networks such as `10.0.0.0/8`, and single addresses.
fn networks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<IpNet>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    let network = |text: String| {
        let address = text.parse::<IpAddr>().map(IpNet::from);
        address.or_else(|_| text.parse::<IpNet>()).map_err(|_| {
            serde::de::Error::custom(format!("{text} is neither an address nor a network"))
        })
    };
    texts.into_iter().map(network).collect()
}
