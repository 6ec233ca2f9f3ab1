//! Loading and validating the configuration.

use super::auth::AuthConfig;
use super::days::DaysConfig;
use super::environment::Environment;
use super::error::{ConfigError, invalid};
use super::hot::HotConfig;
use super::http::HttpConfig;
use super::kafka::KafkaConfig;
use super::limits::LimitsConfig;
use super::metrics::{FactKind, MetricsConfig, USER};
use super::monitor::MonitorConfig;
use super::prefilter::PrefilterConfig;
use super::ranks::RanksConfig;
use super::rebuild::{CounterConfig, RebuildConfig};
use super::reconcile::{AuditConfig, ReconcileConfig};
use super::redis::RedisConfig;
use super::relay::RelayConfig;
use super::schemas::{self, SchemaConfig};
use super::sections::{
    ChangesConfig, ConsumerConfig, DEMO_METRICS, DEMO_TYPE, DeadLettersConfig, DedupConfig,
    FactsConfig, LogConfig, LogKind, TRUNCATED_PAYLOAD_BYTES,
};
use super::sink::SinkConfig;
use super::storage::EntityConfig;
use super::tracing::TracingConfig;
use super::users::UsersConfig;
use crate::domain::ids::Name;
use crate::domain::keys::MAX_PARTITIONS;
use figment::providers::{Format, Serialized, Toml};
use figment::value::{Dict, Map};
use figment::{Error, Figment, Metadata, Profile, Provider};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The commented default configuration: the file `countd/countd.toml` of the repository.
pub const DEFAULTS: &str = include_str!("../../../countd.toml");

/// The maximum deduplication window, in seconds: ten years. Redis rejects an expiry that is too far ahead.
const MAX_WINDOW: u64 = 10 * 365 * 24 * 3600;

/// Tables that replace those of the defaults, and not only add to them.
const REPLACED: [&str; 3] = ["entities", "metrics", "schemas"];

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
    /// The topic of events.
    pub kafka: KafkaConfig,
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
    /// The state of Redis and of the logs in the metrics.
    pub monitor: MonitorConfig,
    /// Traces of OpenTelemetry.
    pub tracing: TracingConfig,
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
    /// The file that was loaded; `None` without one.
    #[serde(skip)]
    pub file: Option<PathBuf>,
}

impl Config {
    /// Loads the defaults, overridden by `file`, overridden by environment variables.
    ///
    /// # Errors
    /// The file does not exist, or a setting in it or in the environment is invalid.
    pub fn load(file: Option<&Path>) -> Result<Config, ConfigError> {
        Config::load_with(file, std::env::vars_os())
    }

    /// [`load`](Self::load), with these environment variables.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_with(
        file: Option<&Path>,
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Config, ConfigError> {
        let defaults = default_values()?;
        let environment = Environment::read(&defaults, variables)?;
        let mut overrides = Figment::new();
        if let Some(path) = file {
            if !path.is_file() {
                return Err(ConfigError::NoFile(path.display().to_string()));
            }
            let replaced = REPLACED
                .into_iter()
                .filter(|table| environment.replaces(table));
            overrides = Figment::from(Without {
                provider: Toml::file_exact(path),
                tables: replaced.collect(),
            });
        }
        let overrides = overrides.merge(environment.clone());
        let is_replaced = |table: &&str| match file {
            // Variables for parts of a table change the table of the file, or the default.
            None => environment.replaces(table),
            Some(path) => environment.replaces(table) || has_table(path, table),
        };
        let has_default_schemas = !overrides.contains("schemas");
        let layers = with_defaults(defaults, overrides, is_replaced);
        let mut config = Config::extract(layers, has_default_schemas)?;
        config.file = file.map(Path::to_owned);
        Ok(config)
    }

    /// Like [`load`](Self::load), from the text of a file and without the environment.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        let overrides = Figment::from(Toml::string(text));
        let given = overrides.clone();
        let is_replaced = |table: &&str| given.contains(table);
        let layers = with_defaults(default_values()?, overrides, is_replaced);
        Config::extract(layers, !given.contains("schemas"))
    }

    fn extract(layers: Figment, has_default_schemas: bool) -> Result<Config, ConfigError> {
        let mut config: Config = layers.extract().map_err(Box::new)?;
        config.has_default_schemas = has_default_schemas;
        config.auth.read_tokens_file()?;
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
        self.http.validate(&self.auth)?;
        if self.http.demo {
            self.validate_demo()?;
        }
        self.auth.validate()?;
        for (setting, address) in [
            ("consumer.listen", self.consumer.listen),
            ("relay.listen", self.relay.listen),
            ("sink.listen", self.sink.listen),
        ] {
            if let Some(address) = address {
                self.auth.check_address(setting, address.ip())?;
            }
        }
        self.limits.validate()?;
        self.reconcile.validate()?;
        self.hot.validate()?;
        self.monitor.validate()?;
        self.tracing.validate()?;
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
        self.kafka.validate()?;
        self.validate_log_kind()?;
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

    /// The archive has the entries of streams, which have no repeatable events with Kafka.
    fn validate_log_kind(&self) -> Result<(), ConfigError> {
        if self.log.kind == LogKind::Streams {
            return Ok(());
        }
        if self.log.archive.dir().is_some() {
            let problem = "not with log.kind = \"kafka\": events in the topic would be missing";
            return Err(invalid("log.archive.dir", problem));
        }
        if !self.log.partitions.is_power_of_two() {
            let problem = "must be a power of two with log.kind = \"kafka\"";
            return Err(invalid("log.partitions", problem));
        }
        Ok(())
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

/// The values of [`DEFAULTS`].
fn default_values() -> Result<Dict, ConfigError> {
    let defaults = Figment::from(Toml::string(DEFAULTS)).extract::<Dict>();
    Ok(defaults.map_err(Box::new)?)
}

/// The defaults, overridden by `overrides`. Tables that are replaced have no defaults.
fn with_defaults(
    mut defaults: Dict,
    overrides: Figment,
    is_replaced: impl Fn(&&str) -> bool,
) -> Figment {
    let replaced: Vec<&str> = REPLACED.into_iter().filter(is_replaced).collect();
    for table in &replaced {
        defaults.remove(*table);
    }
    // The default schema is that of the default entity types and metrics.
    if !replaced.is_empty() {
        defaults.insert("schemas".to_owned(), Dict::new().into());
    }
    Figment::from(Serialized::defaults(defaults)).merge(overrides)
}

/// Whether a file has a table.
fn has_table(file: &Path, table: &str) -> bool {
    Figment::from(Toml::file_exact(file)).contains(table)
}

/// A source of settings without some of its tables.
struct Without<P> {
    provider: P,
    tables: Vec<&'static str>,
}

impl<P: Provider> Provider for Without<P> {
    fn metadata(&self) -> Metadata {
        self.provider.metadata()
    }

    fn data(&self) -> Result<Map<Profile, Dict>, Error> {
        let mut data = self.provider.data()?;
        for values in data.values_mut() {
            values.retain(|name, _| !self.tables.contains(&name.as_str()));
        }
        Ok(data)
    }
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
