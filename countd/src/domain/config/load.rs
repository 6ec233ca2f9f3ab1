//! Loading and validating the configuration.

use super::auth::AuthConfig;
use super::days::DaysConfig;
use super::error::{ConfigError, invalid};
use super::hot::HotConfig;
use super::limits::LimitsConfig;
use super::metrics::{FactKind, MetricsConfig, USER};
use super::prefilter::PrefilterConfig;
use super::ranks::RanksConfig;
use super::rebuild::{CounterConfig, RebuildConfig};
use super::reconcile::{AuditConfig, ReconcileConfig};
use super::redis::RedisConfig;
use super::relay::RelayConfig;
use super::schemas::{self, SchemaConfig};
use super::sections::{
    ChangesConfig, ConsumerConfig, DEMO_METRICS, DEMO_TYPE, DeadLettersConfig, DedupConfig,
    FactsConfig, HttpConfig, LogConfig, TRUNCATED_PAYLOAD_BYTES,
};
use super::sink::SinkConfig;
use super::storage::EntityConfig;
use super::users::UsersConfig;
use crate::domain::ids::Name;
use crate::domain::keys::MAX_PARTITIONS;
use figment::Figment;
use figment::providers::{Env, Format, Serialized, Toml};
use figment::value::Dict;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The commented default configuration: the file `countd/countd.toml` of the repository.
pub const DEFAULTS: &str = include_str!("../../../countd.toml");

/// The maximum deduplication window, in seconds: ten years. Redis rejects an expiry that is too far ahead.
const MAX_WINDOW: u64 = 10 * 365 * 24 * 3600;

/// The minimum of `http.max_bodies_bytes`. The budget for items is derived from it.
const MIN_BODIES: usize = 1 << 20;

/// The configuration. [`DEFAULTS`] describes each setting.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The connection to Redis.
    pub redis: RedisConfig,
    /// The HTTP server.
    pub http: HttpConfig,
    /// Authentication.
    pub auth: AuthConfig,
    /// Rate limits.
    pub limits: LimitsConfig,
    /// The event log.
    pub log: LogConfig,
    /// The consumer of the log.
    pub consumer: ConsumerConfig,
    /// Dead letters.
    pub dead: DeadLettersConfig,
    /// Deduplication windows.
    pub dedup: DedupConfig,
    /// The rebuild of counters from the archive.
    pub counter: CounterConfig,
    /// The rebuild of lost counters.
    pub rebuild: RebuildConfig,
    /// The announcement of changed counters.
    pub changes: ChangesConfig,
    /// Hot entities.
    pub hot: HotConfig,
    /// Filters that answer statuses.
    pub prefilter: PrefilterConfig,
    /// The reconciliation of counters.
    pub reconcile: ReconcileConfig,
    /// The audit of corrections.
    pub audit: AuditConfig,
    /// The relay of an outbox table.
    pub relay: RelayConfig,
    /// The sink of facts and counters.
    pub sink: SinkConfig,
    /// Fact stores.
    pub facts: FactsConfig,
    /// Counts by day.
    pub days: DaysConfig,
    /// Rankings.
    #[serde(rename = "rank")]
    pub ranks: RanksConfig,
    /// The schemas that countd creates.
    pub schemas: BTreeMap<Name, SchemaConfig>,
    /// Whether [`schemas`](Self::schemas) are those of [`DEFAULTS`], and not of the file.
    #[serde(skip)]
    pub has_default_schemas: bool,
    /// The entity types.
    pub entities: BTreeMap<Name, EntityConfig>,
    /// The counters of users.
    pub users: UsersConfig,
    /// The metrics.
    pub metrics: MetricsConfig,
}

impl Config {
    /// Loads the defaults, overridden by `file`, overridden by environment variables.
    ///
    /// # Errors
    /// The file does not exist, or a setting in it or in the environment is invalid.
    pub fn load(file: Option<&Path>) -> Result<Config, ConfigError> {
        let mut overrides = Figment::new();
        if let Some(path) = file {
            if !path.is_file() {
                return Err(ConfigError::NoFile(path.display().to_string()));
            }
            overrides = Figment::from(Toml::file_exact(path));
        }
        let has_default_schemas = !overrides.contains("schemas");
        let layers = with_defaults(overrides)?;
        // Only variables with a section are settings; COUNTD_CONFIG is not.
        let environment = Env::prefixed("COUNTD_").filter(|name| name.as_str().contains("__"));
        Config::extract(layers.merge(environment.split("__")), has_default_schemas)
    }

    /// Like [`load`](Self::load), from the text of a file and without the environment.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        let overrides = Figment::from(Toml::string(text));
        let has_default_schemas = !overrides.contains("schemas");
        Config::extract(with_defaults(overrides)?, has_default_schemas)
    }

    fn extract(layers: Figment, has_default_schemas: bool) -> Result<Config, ConfigError> {
        let mut config: Config = layers.extract().map_err(Box::new)?;
        config.has_default_schemas = has_default_schemas;
        config.validate()?;
        Ok(config)
    }

    /// The schema of an entity type. The inner `None` means users, which have no schema; the outer `None` an unknown type.
    pub fn schema_of(&self, etype: &Name) -> Option<Option<&Name>> {
        match self.entities.get(etype) {
            Some(entity) => Some(Some(&entity.schema)),
            None => (etype.as_str() == USER).then_some(None),
        }
    }

    fn validate(&self) -> Result<(), ConfigError> {
        self.require_positive()?;
        self.redis.validate()?;
        self.validate_windows()?;
        self.validate_http()?;
        self.auth.validate()?;
        self.limits.validate()?;
        self.reconcile.validate()?;
        self.hot.validate()?;
        self.prefilter.validate(self.log.retain)?;
        self.validate_consumer()?;
        if self.dead.payload_bytes > TRUNCATED_PAYLOAD_BYTES {
            let problem = format!("must be at most {TRUNCATED_PAYLOAD_BYTES}");
            return Err(invalid("dead.payload_bytes", problem));
        }
        if !(1..=MAX_PARTITIONS).contains(&self.log.partitions) {
            let problem = format!("must be 1 to {MAX_PARTITIONS}");
            return Err(invalid("log.partitions", problem));
        }
        self.log.archive.validate()?;
        self.relay.validate()?;
        self.sink
            .validate(|etype| self.schema_of(etype), &self.metrics)?;
        // A page of users reads all shards.
        if !(1..=1_000).contains(&self.facts.shards) {
            return Err(invalid("facts.shards", "must be 1 to 1000"));
        }
        // Every read checks all days.
        if self.facts.days > 100 {
            return Err(invalid("facts.days", "must be at most 100"));
        }
        if self.entities.contains_key(USER) {
            return Err(invalid("entities.user", "users have no schema"));
        }
        if let Some((etype, _)) = self
            .entities
            .iter()
            .find(|(_, e)| e.schema.as_str() == USER)
        {
            let problem = "the schema user is that of the counters of users";
            return Err(invalid(format!("entities.{etype}"), problem));
        }
        schemas::validate(&self.schemas)?;
        self.users.validate()?;
        self.days.validate()?;
        self.metrics
            .validate(|etype| self.schema_of(etype).is_some(), &self.users)?;
        self.validate_ranks()
    }

    fn require_positive(&self) -> Result<(), ConfigError> {
        let settings = [
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
            ("changes.retain", self.changes.retain),
            ("changes.retain_bytes", self.changes.retain_bytes),
            ("audit.retain", self.audit.retain),
            ("changes.max_streams", self.changes.max_streams as u64),
            ("facts.days", self.facts.days.into()),
            (
                "facts.compaction_interval_seconds",
                self.facts.compaction_interval_seconds,
            ),
        ];
        match settings.into_iter().find(|(_, value)| *value == 0) {
            Some((setting, _)) => Err(invalid(setting, "must be at least 1")),
            None => Ok(()),
        }
    }

    fn validate_windows(&self) -> Result<(), ConfigError> {
        let DedupConfig {
            window_seconds,
            event_window_seconds,
            ..
        } = self.dedup;
        for (setting, seconds) in [
            ("dedup.window_seconds", window_seconds),
            ("dedup.event_window_seconds", event_window_seconds),
        ] {
            if seconds > MAX_WINDOW {
                let problem = format!("must be at most {MAX_WINDOW}, ten years");
                return Err(invalid(setting, problem));
            }
        }
        Ok(())
    }

    fn validate_http(&self) -> Result<(), ConfigError> {
        if self.http.max_bodies_bytes < self.http.max_body_bytes.max(MIN_BODIES) {
            let problem =
                format!("must be at least http.max_body_bytes, and at least {MIN_BODIES}");
            return Err(invalid("http.max_bodies_bytes", problem));
        }
        match self.http.demo {
            true => self.validate_demo(),
            false => Ok(()),
        }
    }

    /// The demo acts for its users without a token, and shows changes as they are announced.
    fn validate_demo(&self) -> Result<(), ConfigError> {
        let refuse = |problem: &str| Err(invalid("http.demo", problem));
        if self.auth.is_enabled() {
            return refuse("the demo has no tokens: not with auth.tokens or auth.jwt");
        }
        if !self.changes.enabled {
            return refuse("requires changes.enabled = true");
        }
        let has_metric = |name: &&str| self.metrics.get(name).is_some();
        if !self.entities.contains_key(DEMO_TYPE) || !DEMO_METRICS.iter().all(has_metric) {
            return refuse("requires the entity type note and the metrics read, like and fav");
        }
        Ok(())
    }

    fn validate_consumer(&self) -> Result<(), ConfigError> {
        // Redis holds a whole reply in memory.
        if self.consumer.batch > 10_000 {
            return Err(invalid("consumer.batch", "must be at most 10000"));
        }
        // The lower bound leaves room for derived events, the upper bound for the reply in Redis.
        if !(1 << 20..=1 << 28).contains(&self.consumer.read_bytes) {
            let problem = "must be 1048576 to 268435456";
            return Err(invalid("consumer.read_bytes", problem));
        }
        if self.consumer.session_timeout_ms < 500 {
            return Err(invalid(
                "consumer.session_timeout_ms",
                "must be at least 500",
            ));
        }
        Ok(())
    }
}

/// The defaults, overridden by `overrides`. Its `entities`, `metrics` and `schemas` replace those of the defaults. The default schema
/// is for the default entities and metrics.
fn with_defaults(overrides: Figment) -> Result<Figment, ConfigError> {
    let defaults = Figment::from(Toml::string(DEFAULTS)).extract::<Dict>();
    let mut defaults = defaults.map_err(Box::new)?;
    for table in ["entities", "metrics", "schemas"] {
        if overrides.contains(table) {
            defaults.remove(table);
        }
    }
    if !overrides.contains("schemas")
        && ["entities", "metrics"]
            .iter()
            .any(|table| overrides.contains(table))
    {
        defaults.insert("schemas".to_owned(), Dict::new().into());
    }
    Ok(Figment::from(Serialized::defaults(defaults)).merge(overrides))
}

impl Config {
    /// Identifies how counters change: the settings of the *once* metrics that decide which step changes a counter, and where its facts
    /// are, and the metrics with counts by day.
    pub fn counting(&self) -> String {
        let mut text = String::new();
        for (name, metric) in self.metrics.iter() {
            if let Some(kind) = metric.fact_kind() {
                // Processes that do not know recounts of bitmaps do not keep their sums.
                let form = match kind {
                    FactKind::Bitmap => "bitmap with recounts",
                    kind => kind.name(),
                };
                // Writing to a String cannot fail.
                let _ = write!(text, "{name}:{:?}:{form} ", metric.count);
            }
            if metric.daily {
                let _ = write!(text, "{name}:daily ");
            }
        }
        format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
    }
}
