//! The configuration: `countd.toml`, overridden by environment variables.

mod addresses;
mod archive;
mod auth;
mod database;
mod days;
mod environment;
mod error;
mod hot;
mod http;
mod kafka;
mod limits;
mod load;
mod metrics;
mod monitor;
mod prefilter;
mod ranks;
mod rebuild;
mod reconcile;
mod redis;
mod relay;
mod schemas;
mod secret;
mod sections;
mod sentinel;
mod sink;
mod storage;
mod tls;
mod tracing;
mod type_rankings;
mod users;

pub use archive::ArchiveConfig;
pub use auth::{AuthConfig, JwtConfig, Right, Token};
pub use database::{DatabaseKind, DatabaseUrl};
pub use days::DaysConfig;
pub use error::ConfigError;
pub use hot::HotConfig;
pub use http::{CorsConfig, HttpConfig, HttpTlsConfig};
pub use kafka::{KafkaConfig, LostRecords};
pub use limits::{LimitConfig, LimitsConfig};
pub use load::{Config, DEFAULTS};
pub use metrics::{
    Count, DEFAULT_LATEST, FactKind, Feed, Metric, MetricsConfig, NamesAuthor, Nature, Order,
    Reads, Role, USER,
};
pub use monitor::MonitorConfig;
pub use prefilter::PrefilterConfig;
pub use ranks::{Ranking, RanksConfig};
pub use rebuild::{ArchiveRebuildConfig, CounterConfig, RebuildConfig};
pub use reconcile::{AuditConfig, ReconcileConfig};
pub use redis::{Ack, ReadFrom, RedisConfig, RedisTlsConfig};
pub use relay::{RelayConfig, SentRows};
pub use schemas::SchemaConfig;
pub use secret::Secret;
pub use sections::{
    ChangesConfig, ConsumerConfig, DEMO_METRICS, DEMO_TYPE, DeadLettersConfig, DedupConfig,
    EventIds, FactsConfig, LogConfig, LogKind, TRUNCATED_PAYLOAD_BYTES,
};
pub use sentinel::SentinelConfig;
pub use sink::{CountTable, DetailTable, SinkConfig};
pub use storage::{EntityConfig, Storage};
pub use tracing::TracingConfig;
pub use type_rankings::TypeRanking;
pub use users::{BUILT_IN_COUNTERS, UserCounter, UsersConfig};

#[cfg(test)]
mod tests;
