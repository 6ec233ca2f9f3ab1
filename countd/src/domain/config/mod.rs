//! The configuration: `countd.toml`, overridden by environment variables.

mod auth;
mod error;
mod limits;
mod load;
mod metrics;
mod sections;
mod storage;

pub use auth::{AuthConfig, JwtConfig, Right, Token};
pub use error::ConfigError;
pub use limits::{LimitConfig, LimitsConfig};
pub use load::{Config, DEFAULTS};
pub use metrics::{
    Count, FactKind, Feed, Metric, MetricsConfig, NamesAuthor, Nature, Role, USER, UserCounter,
};
pub use sections::{
    ChangesConfig, ConsumerConfig, DeadLettersConfig, DedupConfig, EventIds, FactsConfig,
    HttpConfig, LogConfig, RedisConfig, TRUNCATED_PAYLOAD_BYTES,
};
pub use storage::{EntityConfig, Storage, UsersConfig};

#[cfg(test)]
mod tests;
