//! `[redis.sentinel]`: the Sentinels that know the master.

use super::addresses::addresses;
use super::error::{ConfigError, invalid};
use super::secret::Secret;
use serde::Deserialize;

/// `[redis.sentinel]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SentinelConfig {
    /// The addresses (`host:port`) of the Sentinels. Without any, `redis.url` has the address of the server.
    pub addresses: Vec<String>,
    /// The name of the master in the configuration of the Sentinels.
    pub master: String,
    /// The user of the Sentinels; empty for the default user.
    pub username: String,
    /// The password of the Sentinels; empty for none.
    pub password: Secret,
}

impl SentinelConfig {
    /// Whether Sentinels tell the address of the server.
    pub fn is_enabled(&self) -> bool {
        !self.addresses.is_empty()
    }

    /// The hosts and ports of the Sentinels. `None` if one is no address.
    pub fn parsed_addresses(&self) -> Option<Vec<(String, u16)>> {
        addresses(&self.addresses)
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if self.parsed_addresses().is_none() {
            let problem = "must be addresses like \"sentinel-1:26379\"";
            return Err(invalid("redis.sentinel.addresses", problem));
        }
        match self.is_enabled() && self.master.is_empty() {
            true => Err(invalid("redis.sentinel.master", "must not be empty")),
            false => Ok(()),
        }
    }
}
