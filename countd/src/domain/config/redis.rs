//! `[redis]`

use super::error::{ConfigError, invalid};
use serde::Deserialize;
use std::fmt;
use std::time::Duration;

/// The maximum of `redis.ack_timeout_ms`: a minute.
const MAX_ACK_TIMEOUT: u64 = 60_000;

/// The range of `redis.max_staleness_ms`: up to an hour.
const MIN_STALENESS: u64 = 10;
const MAX_STALENESS: u64 = 3_600_000;

/// `[redis]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisConfig {
    /// The URL of the server, or of a node of a cluster.
    pub url: String,
    /// The addresses (`host:port`) of further nodes of the cluster: any of them is enough to find all nodes.
    pub seeds: Vec<String>,
    /// The timeout of a command, in milliseconds.
    pub response_timeout_ms: u64,
    /// Which servers answer reads of clients.
    pub read_from: ReadFrom,
    /// The maximum age of the data of a replica that answers, in milliseconds: 10 to 3,600,000.
    pub max_staleness_ms: u64,
    /// The addresses (`host:port`) of the replicas. If there are none, the primaries tell them.
    pub replicas: Vec<String>,
    /// How safe a write must be before it is confirmed.
    pub ack: Ack,
    /// The timeout for that, in milliseconds: 1 to 60,000.
    pub ack_timeout_ms: u64,
}

/// Which servers answer reads of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadFrom {
    /// The primaries.
    Primary,
    /// Replicas, if their data is new enough.
    Replica,
}

/// How safe a write must be before it is confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Ack {
    /// It is in the memory of the server.
    Memory,
    /// It is also in the append-only file of the server, on the disk.
    Fsync,
    /// It is also in the memory of this many replicas, at least 1.
    Replicas(u16),
}

impl TryFrom<String> for Ack {
    type Error = String;

    fn try_from(text: String) -> Result<Ack, String> {
        let replicas = || text.strip_prefix("replicas:")?.parse().ok();
        match (text.as_str(), replicas()) {
            ("memory", _) => Ok(Ack::Memory),
            ("fsync", _) => Ok(Ack::Fsync),
            (_, Some(count @ 1..)) => Ok(Ack::Replicas(count)),
            _ => Err("must be \"memory\", \"fsync\", or \"replicas:1\" or more".to_owned()),
        }
    }
}

impl fmt::Display for Ack {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ack::Memory => to.write_str("memory"),
            Ack::Fsync => to.write_str("fsync"),
            Ack::Replicas(count) => write!(to, "replicas:{count}"),
        }
    }
}

impl RedisConfig {
    /// The hosts and ports of [`seeds`](Self::seeds). `None` if one is no address.
    pub fn seed_addresses(&self) -> Option<Vec<(String, u16)>> {
        addresses(&self.seeds)
    }

    /// The hosts and ports of [`replicas`](Self::replicas). `None` if one is no address.
    pub fn replica_addresses(&self) -> Option<Vec<(String, u16)>> {
        addresses(&self.replicas)
    }

    /// The maximum age of the data of a replica that answers.
    pub fn max_staleness(&self) -> Duration {
        Duration::from_millis(self.max_staleness_ms)
    }

    /// The timeout of a command.
    pub fn response_timeout(&self) -> Duration {
        Duration::from_millis(self.response_timeout_ms)
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        for (setting, found) in [
            ("redis.seeds", self.seed_addresses()),
            ("redis.replicas", self.replica_addresses()),
        ] {
            if found.is_none() {
                let problem = "must be addresses like \"redis-2:6379\"";
                return Err(invalid(setting, problem));
            }
        }
        // A shorter time would need too many probes.
        if !(MIN_STALENESS..=MAX_STALENESS).contains(&self.max_staleness_ms) {
            let problem = format!("must be {MIN_STALENESS} to {MAX_STALENESS}");
            return Err(invalid("redis.max_staleness_ms", problem));
        }
        // For Redis, 0 is no timeout.
        if !(1..=MAX_ACK_TIMEOUT).contains(&self.ack_timeout_ms) {
            let problem = format!("must be 1 to {MAX_ACK_TIMEOUT}");
            return Err(invalid("redis.ack_timeout_ms", problem));
        }
        Ok(())
    }
}

/// The hosts and ports of addresses. `None` if one is no address.
fn addresses(texts: &[String]) -> Option<Vec<(String, u16)>> {
    let address = |text: &String| {
        let (host, port) = text.rsplit_once(':')?;
        // The brackets of an IPv6 address.
        let host = host.trim_start_matches('[').trim_end_matches(']');
        (!host.is_empty()).then_some((host.to_owned(), port.parse().ok()?))
    };
    texts.iter().map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_parsed_and_written_alike() {
        for (text, ack) in [
            ("memory", Ack::Memory),
            ("fsync", Ack::Fsync),
            ("replicas:1", Ack::Replicas(1)),
            ("replicas:2", Ack::Replicas(2)),
        ] {
            assert_eq!(Ack::try_from(text.to_owned()), Ok(ack));
            assert_eq!(ack.to_string(), text);
        }
        for text in [
            "",
            "all",
            "replicas",
            "replicas:",
            "replicas:0",
            "replicas:-1",
        ] {
            assert!(Ack::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
