//! The configuration: `countd.toml`, overridden by environment variables.

mod error;
mod limits;
mod load;
mod metrics;
mod sections;
mod storage;

pub use error::ConfigError;
pub use limits::{LimitConfig, LimitsConfig};
pub use load::{Config, DEFAULTS};
pub use metrics::{
    Count, FactKind, Feed, Metric, MetricsConfig, NamesAuthor, Nature, Role, USER, UserCounter,
};
pub use sections::{
    AuthConfig, ConsumerConfig, DeadLettersConfig, DedupConfig, FactsConfig, HttpConfig, LogConfig,
    RedisConfig, Right, TRUNCATED_PAYLOAD_BYTES, Token,
};
pub use storage::{EntityConfig, Storage, UsersConfig};

#[cfg(test)]
mod tests;
