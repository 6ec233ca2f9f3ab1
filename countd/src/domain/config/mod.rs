//! The configuration: `countd.toml`, and the environment over it.

mod limits;
mod metrics;

pub use limits::{LimitConfig, LimitsConfig};
pub use metrics::{Count, FactKind, Feed, Metric, MetricsConfig, Nature, Role, UserCounter};

use crate::domain::ids::Name;
use crate::domain::keys::MAX_PARTITIONS;
use crate::log::TRUNCATED_PAYLOAD_BYTES;
use figment::Figment;
use figment::providers::{Env, Format, Serialized, Toml};
use figment::value::Dict;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Every setting with its default and what it means: the file that the repository has as `countd/countd.toml`.
pub const DEFAULTS: &str = include_str!("../../../countd.toml");

/// The type of entity that users are. It has no schema.
pub const USER: &str = "user";

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file is missing.
    #[error("there is no file {0}")]
    NoFile(String),
    /// A setting is unknown, missing or of the wrong kind.
    #[error("{0}")]
    Unreadable(#[from] Box<figment::Error>),
    /// A setting has a value that makes no sense.
    #[error("{setting}: {problem}")]
    Invalid {
        /// Where it is.
        setting: String,
        /// What is wrong with it.
        problem: String,
    },
}

fn invalid(setting: impl Into<String>, problem: impl Into<String>) -> ConfigError {
    ConfigError::Invalid {
        setting: setting.into(),
        problem: problem.into(),
    }
}

/// All of it. See [`DEFAULTS`] for what each setting means.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The server.
    pub redis: RedisConfig,
    /// The API.
    pub http: HttpConfig,
    /// Who may use it.
    pub auth: AuthConfig,
    /// How much of it.
    pub limits: LimitsConfig,
    /// The event log.
    pub log: LogConfig,
    /// What counts it.
    pub consumer: ConsumerConfig,
    /// What cannot be counted.
    pub dead: DeadLettersConfig,
    /// What is remembered, so that it counts once.
    pub dedup: DedupConfig,
    /// How facts are kept.
    pub facts: FactsConfig,
    /// The schema of each type of entity.
    pub entities: BTreeMap<Name, Name>,
    /// The metrics.
    pub metrics: MetricsConfig,
}

/// `[redis]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisConfig {
    /// Where the server is.
    pub url: String,
    /// After this many milliseconds a command counts as lost.
    pub response_timeout_ms: u64,
}

impl RedisConfig {
    /// How long a reply may take.
    pub fn response_timeout(&self) -> Duration {
        Duration::from_millis(self.response_timeout_ms)
    }
}

/// `[http]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpConfig {
    /// The address and port to listen on.
    pub listen: SocketAddr,
    /// The longest body, in bytes.
    pub max_body_bytes: usize,
    /// The most bytes of all bodies that are under way at a time.
    pub max_bodies_bytes: usize,
    /// The longest time that a request may take, in milliseconds.
    pub timeout_ms: u64,
    /// The longest time that its headers may take, in milliseconds.
    pub header_timeout_ms: u64,
    /// The most connections at a time.
    pub max_connections: usize,
    /// The most lines of a `POST /actions`.
    pub max_actions: usize,
    /// The most entities or users of a batch that reads.
    pub max_batch: usize,
}

/// `[auth]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthConfig {
    /// Who has one of these may do what it allows. Without any, everybody may do everything.
    pub tokens: Vec<Token>,
}

/// A bearer token.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// What requests carry: at least 16 characters that can stand in a header.
    pub token: String,
    /// What it allows.
    pub rights: Vec<Right>,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a token for {:?}", self.rights)
    }
}

/// What a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// Ask.
    Read,
    /// Act.
    Write,
    /// See the metrics.
    Admin,
}

/// `[log]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    /// How many partitions there are.
    pub partitions: u16,
    /// How many counted entries of a partition are kept.
    pub retain: u64,
    /// Fewer of them where the partition's log has more bytes.
    pub retain_bytes: u64,
}

/// `[consumer]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsumerConfig {
    /// The most events of a partition that are read at once.
    pub batch: usize,
    /// The most bytes of events that a worker reads at once.
    pub read_bytes: usize,
    /// How many tasks read the log.
    pub workers: u16,
    /// Milliseconds between two reads.
    pub linger_ms: u64,
    /// The most milliseconds for which events are accumulator under load.
    pub gather_ms: u64,
    /// Milliseconds after which a silent consumer counts as dead.
    pub dead_after_ms: u64,
    /// Where a process that only counts answers operators; `None` for nowhere.
    #[serde(deserialize_with = "address_or_nothing")]
    pub listen: Option<SocketAddr>,
}

/// An empty text is no address.
fn address_or_nothing<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(from)?;
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

/// `[dead]`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadLettersConfig {
    /// The most bytes that are kept of what is no event.
    pub payload_bytes: usize,
    /// The most bytes of a stream of dead letters; 0 for any number.
    pub max_bytes: u64,
}

/// `[dedup]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DedupConfig {
    /// Seconds for which an idempotency key is remembered.
    pub window_seconds: u64,
    /// Seconds for which the id of an envelope is remembered.
    pub event_window_seconds: u64,
}

/// `[facts]`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FactsConfig {
    /// How many Sets there are for an entity.
    pub shards: u16,
    /// How many days are Sets, today's included.
    pub days: u16,
    /// Seconds between two looks for days to fold.
    pub fold_seconds: u64,
}

/// The longest time for which anything is remembered, in seconds.
const LONGEST_WINDOW: u64 = 10 * 365 * 24 * 3600;

/// The least that all bodies may take together: the items of requests are counted by it, too.
const LEAST_BODIES: usize = 1 << 20;

impl Config {
    /// Reads the defaults, `file` over them, and the environment over both.
    ///
    /// # Errors
    /// The file is missing, or something in it or in the environment is wrong.
    pub fn load(file: Option<&Path>) -> Result<Config, ConfigError> {
        let mut top = Figment::new();
        if let Some(path) = file {
            if !path.is_file() {
                return Err(ConfigError::NoFile(path.display().to_string()));
            }
            top = Figment::from(Toml::file_exact(path));
        }
        let layers = over_defaults(top)?;
        // Variables such as COUNTD_CONFIG are no settings: those have two parts.
        let environment = Env::prefixed("COUNTD_").filter(|name| name.as_str().contains("__"));
        Config::from(layers.merge(environment.split("__")))
    }

    /// The same from text in place of a file, and without the environment.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::from(over_defaults(Figment::from(Toml::string(text)))?)
    }

    fn from(layers: Figment) -> Result<Config, ConfigError> {
        let config: Config = layers.extract().map_err(Box::new)?;
        config.check()?;
        Ok(config)
    }

    /// The schema of a type of entity; `None` for users. The outer `None`: there is no such type.
    pub fn schema_of(&self, etype: &Name) -> Option<Option<&Name>> {
        match self.entities.get(etype) {
            Some(schema) => Some(Some(schema)),
            None => (etype.as_str() == USER).then_some(None),
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        let at_least_one = [
            ("redis.response_timeout_ms", self.redis.response_timeout_ms),
            ("http.max_body_bytes", self.http.max_body_bytes as u64),
            ("http.timeout_ms", self.http.timeout_ms),
            ("http.header_timeout_ms", self.http.header_timeout_ms),
            ("http.max_connections", self.http.max_connections as u64),
            ("http.max_actions", self.http.max_actions as u64),
            ("http.max_batch", self.http.max_batch as u64),
            ("consumer.batch", self.consumer.batch as u64),
            ("consumer.workers", self.consumer.workers.into()),
            ("dedup.window_seconds", self.dedup.window_seconds),
            (
                "dedup.event_window_seconds",
                self.dedup.event_window_seconds,
            ),
            ("facts.days", self.facts.days.into()),
            ("facts.fold_seconds", self.facts.fold_seconds),
        ];
        for (setting, value) in at_least_one {
            if value == 0 {
                return Err(invalid(setting, "must be at least 1"));
            }
        }
        for (setting, seconds) in [
            ("dedup.window_seconds", self.dedup.window_seconds),
            (
                "dedup.event_window_seconds",
                self.dedup.event_window_seconds,
            ),
        ] {
            // RedisConfig refuses a time to live that lies too far ahead.
            if seconds > LONGEST_WINDOW {
                return Err(invalid(setting, "must be at most 315360000, ten years"));
            }
        }
        for token in &self.auth.tokens {
            let fits = token.token.len() >= 16 && token.token.bytes().all(|b| b.is_ascii_graphic());
            if !fits || token.rights.is_empty() {
                let problem = "each has at least 16 printable characters, no blank, and a right";
                return Err(invalid("auth.tokens", problem));
            }
        }
        if self.http.max_bodies_bytes < self.http.max_body_bytes.max(LEAST_BODIES) {
            let problem = format!("must be at least http.max_body_bytes, and {LEAST_BODIES}");
            return Err(invalid("http.max_bodies_bytes", problem));
        }
        self.limits.check()?;
        // RedisConfig holds a reply in memory.
        if self.consumer.batch > 10_000 {
            return Err(invalid("consumer.batch", "must be at most 10000"));
        }
        // Derived events have to fit, and a reply of RedisConfig.
        if !(1 << 20..=1 << 28).contains(&self.consumer.read_bytes) {
            let problem = "must be 1048576 to 268435456";
            return Err(invalid("consumer.read_bytes", problem));
        }
        if self.dead.payload_bytes > TRUNCATED_PAYLOAD_BYTES {
            let problem = format!("must be at most {TRUNCATED_PAYLOAD_BYTES}");
            return Err(invalid("dead.payload_bytes", problem));
        }
        if !(1..=MAX_PARTITIONS).contains(&self.log.partitions) {
            let problem = format!("must be 1 to {MAX_PARTITIONS}");
            return Err(invalid("log.partitions", problem));
        }
        // Each is a key of every page of users.
        if !(1..=1_000).contains(&self.facts.shards) {
            return Err(invalid("facts.shards", "must be 1 to 1000"));
        }
        // Each is looked at by every question.
        if self.facts.days > 100 {
            return Err(invalid("facts.days", "must be at most 100"));
        }
        if self.consumer.dead_after_ms < 500 {
            return Err(invalid("consumer.dead_after_ms", "must be at least 500"));
        }
        if self.entities.contains_key(USER) {
            return Err(invalid("entities.user", "users have no schema"));
        }
        self.metrics.check(|etype| self.schema_of(etype).is_some())
    }
}

/// The defaults with `top` over them; its entities and metrics replace the defaults' as a whole.
fn over_defaults(top: Figment) -> Result<Figment, ConfigError> {
    let defaults = Figment::from(Toml::string(DEFAULTS)).extract::<Dict>();
    let mut defaults = defaults.map_err(Box::new)?;
    for table in ["entities", "metrics"] {
        if top.contains(table) {
            defaults.remove(table);
        }
    }
    Ok(Figment::from(Serialized::defaults(defaults)).merge(top))
}

#[cfg(test)]
mod tests;
