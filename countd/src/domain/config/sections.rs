//! The sections of the configuration. `countd.toml` describes each setting.

use super::archive::ArchiveConfig;
use crate::domain::keys::Keys;
use serde::{Deserialize, Deserializer};
use std::net::SocketAddr;

/// The entity type of the posts of the demo.
pub const DEMO_TYPE: &str = "note";
/// The metrics of the demo, in the order in which it shows them.
pub const DEMO_METRICS: [&str; 3] = ["like", "fav", "read"];

/// Where events wait until they are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogKind {
    /// In streams of Redis.
    Streams,
    /// Repeatable events in a topic of Kafka, all others in streams of Redis.
    Kafka,
}

/// `[log]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    /// Where events wait until they are counted.
    pub kind: LogKind,
    /// The number of partitions.
    pub partitions: u16,
    /// The number of committed entries that are retained in each partition.
    pub retain: u64,
    /// The maximum size of a partition's log before retained entries are trimmed, in bytes.
    pub retain_bytes: u64,
    /// The event archive.
    pub archive: ArchiveConfig,
}

/// `[consumer]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsumerConfig {
    /// The maximum number of events per read of a partition.
    pub batch: usize,
    /// The maximum number of bytes per read of a worker.
    pub read_bytes: usize,
    /// The number of worker tasks; in a cluster, per node.
    pub workers: u16,
    /// The delay between two reads, in milliseconds.
    pub linger_ms: u64,
    /// The maximum age of an accumulated batch under load, in milliseconds.
    pub max_batch_age_ms: u64,
    /// The time without a heartbeat after which a consumer is considered dead, in milliseconds.
    pub session_timeout_ms: u64,
    /// The address for operational requests of a process that only consumes; `None` disables them.
    #[serde(deserialize_with = "optional_address")]
    pub listen: Option<SocketAddr>,
}

/// An empty string means no address.
pub(super) fn optional_address<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(from)?;
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

/// The number of payload bytes that are kept of an entry larger than `consumer.read_bytes`; also the maximum of
/// `dead.payload_bytes`.
pub const TRUNCATED_PAYLOAD_BYTES: usize = 64 * 1024;

/// `[dead]`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadLettersConfig {
    /// The maximum length of the payload that a dead letter keeps, in bytes.
    pub payload_bytes: usize,
    /// The maximum size of a dead-letter stream, in bytes; 0 means unlimited.
    pub max_bytes: u64,
}

/// `[dedup]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DedupConfig {
    /// The time for which idempotency keys are remembered, in seconds.
    pub window_seconds: u64,
    /// The time for which the IDs of envelopes are remembered, in seconds.
    pub event_window_seconds: u64,
    /// Whether the IDs of envelopes are remembered for that time or forever.
    pub events: EventIds,
}

/// How long the IDs of counted envelopes are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventIds {
    /// For `dedup.event_window_seconds`.
    Window,
    /// Forever.
    Forever,
}

/// `[changes]`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangesConfig {
    /// Whether changes of counters are announced.
    pub enabled: bool,
    /// The number of entries that are retained.
    pub retain: u64,
    /// The maximum size of the retained entries, in bytes.
    pub retain_bytes: u64,
    /// The maximum number of clients that `GET /changes` serves at once, in each process.
    pub max_streams: usize,
}

impl ChangesConfig {
    /// The number of entries that each of the streams retains.
    pub fn retain_per_stream(&self, keys: Keys) -> u64 {
        (self.retain / u64::from(keys.change_streams())).max(1)
    }

    /// The maximum size of each of the streams, in bytes.
    pub fn bytes_per_stream(&self, keys: Keys) -> u64 {
        (self.retain_bytes / u64::from(keys.change_streams())).max(1)
    }
}

/// `[facts]`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FactsConfig {
    /// The number of Sets per entity in the `sharded` fact store.
    pub shards: u16,
    /// The number of days, including today, that the `daily` fact store keeps as separate Sets.
    pub days: u16,
    /// The interval between two compactions of the `daily` fact store, in seconds.
    pub compaction_interval_seconds: u64,
}
