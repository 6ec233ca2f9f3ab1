//! The configuration of the topic of events.

use super::database::check_ranges;
use super::error::{ConfigError, invalid};
use super::secret::Secret;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::time::Duration;

/// The maximum length of a topic's name.
const MAX_TOPIC: usize = 249;

/// The minimum of `kafka.timeout_ms`.
const MIN_TIMEOUT_MS: u64 = 1_000;
/// Names of the time for which librdkafka collects records for a request.
const LINGER: [&str; 2] = ["linger.ms", "queue.buffering.max.ms"];

/// Settings of librdkafka that other settings determine.
const OTHERS: &[(&str, &str)] = &[
    ("bootstrap.servers", "kafka.brokers"),
    ("metadata.broker.list", "kafka.brokers"),
    ("group.id", "kafka.group"),
    ("message.timeout.ms", "kafka.timeout_ms"),
    ("delivery.timeout.ms", "kafka.timeout_ms"),
];

/// Settings of librdkafka on which exact counting depends, and the reasons.
const REFUSED: &[(&str, &str)] = &[
    ("acks", ACKS),
    ("request.required.acks", ACKS),
    ("enable.idempotence", "a retry would count an event twice"),
    ("message.send.max.retries", RETRIES),
    ("retries", RETRIES),
    ("transactional.id", "countd uses no transactions"),
    ("partitioner", PARTITIONER),
    ("partitioner_cb", PARTITIONER),
    ("isolation.level", "countd reads what is committed"),
    ("enable.auto.commit", POSITIONS),
    ("enable.auto.offset.store", POSITIONS),
    ("auto.commit.interval.ms", POSITIONS),
    ("auto.offset.reset", POSITIONS),
    ("enable.partition.eof", "countd does not use it"),
    ("group.instance.id", ASSIGNMENT),
    ("group.protocol", ASSIGNMENT),
    ("partition.assignment.strategy", ASSIGNMENT),
    ("allow.auto.create.topics", "the topic must exist"),
    ("queuing.strategy", "the order of events would change"),
    ("enable.gapless.guarantee", "an event would count twice"),
];
const ACKS: &str = "an event must be on all in-sync replicas before it is confirmed";
const RETRIES: &str = "events are sent again until kafka.timeout_ms";
const PARTITIONER: &str = "the partition of an event is that of its counters";
const POSITIONS: &str = "positions are stored in Redis";
const ASSIGNMENT: &str = "countd assigns partitions itself";

/// `[kafka]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KafkaConfig {
    /// Brokers from which a process learns the others: `host:port`.
    pub brokers: Vec<String>,
    /// The topic.
    pub topic: String,
    /// The consumer group whose offsets are published.
    pub group: String,
    /// Settings of librdkafka. They may contain passwords.
    pub properties: BTreeMap<String, Property>,
    /// What happens if records were removed before they were counted.
    pub lost_records: LostRecords,
    /// The time after which an event that the topic has not accepted is rejected, in milliseconds.
    pub timeout_ms: u64,
}

/// What happens if the topic has removed records before they were counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LostRecords {
    /// No further records of the topic partition are counted.
    Stop,
    /// Those that are left are counted.
    Skip,
}

/// The value of a setting of librdkafka: a text, a number or a boolean.
#[derive(Clone, Debug)]
pub struct Property(Secret);

impl Property {
    /// The value. Not for logs.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

impl<'de> Deserialize<'de> for Property {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Property, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a text, a number or a boolean")]
        enum Form {
            Boolean(bool),
            Integer(i64),
            Number(f64),
            Text(String),
        }
        let text = match Form::deserialize(from)? {
            Form::Boolean(value) => value.to_string(),
            Form::Integer(value) => value.to_string(),
            Form::Number(value) => value.to_string(),
            Form::Text(value) => value,
        };
        Ok(Property(Secret::new(text)))
    }
}

impl KafkaConfig {
    /// The time after which an event that the topic has not accepted is rejected.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let is_broker = |broker: &String| {
            !broker.is_empty() && !broker.contains(|c: char| c == ',' || c.is_whitespace())
        };
        if self.brokers.is_empty() || !self.brokers.iter().all(is_broker) {
            let problem = "must be a list of brokers, each host:port";
            return Err(invalid("kafka.brokers", problem));
        }
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let is_topic = (1..=MAX_TOPIC).contains(&self.topic.len())
            && self.topic.chars().all(is_allowed)
            && !matches!(self.topic.as_str(), "." | "..");
        if !is_topic {
            let problem = "must be 1 to 249 letters, digits, dots, _ and -";
            return Err(invalid("kafka.topic", problem));
        }
        if self.group.is_empty() {
            return Err(invalid("kafka.group", "must not be empty"));
        }
        for name in self.properties.keys() {
            let setting = || format!("kafka.properties.{name}");
            if let Some((_, other)) = OTHERS.iter().find(|(known, _)| known == name) {
                return Err(invalid(setting(), format!("is {other}")));
            }
            if let Some((_, reason)) = REFUSED.iter().find(|(known, _)| known == name) {
                return Err(invalid(setting(), format!("cannot be set: {reason}")));
            }
        }
        check_ranges(&[("kafka.timeout_ms", self.timeout_ms, 600_000)])?;
        // Otherwise the client is replaced before it is connected, again and again.
        if self.timeout_ms < MIN_TIMEOUT_MS {
            let problem = format!("must be at least {MIN_TIMEOUT_MS}");
            return Err(invalid("kafka.timeout_ms", problem));
        }
        for name in LINGER {
            let linger = self.properties.get(name);
            let linger = linger.and_then(|linger| linger.expose().parse::<f64>().ok());
            if linger.is_some_and(|linger| linger >= self.timeout_ms as f64) {
                let setting = format!("kafka.properties.{name}");
                return Err(invalid(setting, "must be below kafka.timeout_ms"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::domain::config::Config;

    fn refused(text: &str) -> String {
        match Config::parse(text) {
            Ok(_) => panic!("accepted: {text}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn properties_are_texts_numbers_or_booleans_and_are_not_shown() {
        let text = r#"
            [kafka]
            brokers = ["a:1", "b:2"]
            properties = { "sasl.password" = "hidden", "linger.ms" = 5, "socket.keepalive.enable" = true }
        "#;
        let config = Config::parse(text).expect("valid").kafka;
        let values: Vec<&str> = config.properties.values().map(|v| v.expose()).collect();
        assert_eq!(values, ["5", "hidden", "true"]);
        assert!(!format!("{config:?}").contains("hidden"));
        let nested = refused("[kafka]\nproperties = { \"a\" = [1] }");
        assert!(nested.contains("a text, a number or a boolean"), "{nested}");
    }

    #[test]
    fn properties_that_would_break_guarantees_are_refused_with_the_reason() {
        for (property, reason) in [
            ("\"enable.idempotence\" = false", "twice"),
            ("\"acks\" = 1", "in-sync replicas"),
            ("\"group.id\" = \"x\"", "is kafka.group"),
            ("\"auto.offset.reset\" = \"latest\"", "stored in Redis"),
            ("\"partitioner\" = \"random\"", "that of its counters"),
        ] {
            let error = refused(&format!("[kafka]\nproperties = {{ {property} }}"));
            assert!(
                error.contains("kafka.properties.") && error.contains(reason),
                "{error}"
            );
        }
    }

    #[test]
    fn events_have_time_to_be_confirmed() {
        let error = refused("[kafka]\ntimeout_ms = 999");
        assert!(error.contains("must be at least 1000"), "{error}");
        for name in ["linger.ms", "queue.buffering.max.ms"] {
            let with = |linger: u64| {
                format!("[kafka]\ntimeout_ms = 2000\nproperties = {{ \"{name}\" = {linger} }}")
            };
            let error = refused(&with(2_000));
            assert!(error.contains("must be below kafka.timeout_ms"), "{error}");
            assert!(Config::parse(&with(1_999)).is_ok());
        }
    }

    #[test]
    fn an_archive_is_refused_with_kafka() {
        let kafka = "[log]\nkind = \"kafka\"\n";
        assert!(Config::parse(kafka).is_ok());
        let error = refused(&format!("{kafka}[log.archive]\ndir = \"/a\""));
        assert!(error.starts_with("log.archive.dir"), "{error}");
        let error = refused("[log]\nkind = \"kafka\"\npartitions = 1000");
        assert!(error.contains("power of two"), "{error}");
    }

    #[test]
    fn brokers_and_topics_have_valid_names() {
        for (settings, setting) in [
            ("brokers = []", "kafka.brokers"),
            ("brokers = [\"a:1,b:2\"]", "kafka.brokers"),
            ("topic = \"a b\"", "kafka.topic"),
            ("topic = \"..\"", "kafka.topic"),
            ("group = \"\"", "kafka.group"),
            ("timeout_ms = 0", "kafka.timeout_ms"),
        ] {
            let error = refused(&format!("[kafka]\n{settings}"));
            assert!(error.starts_with(setting), "{error}");
        }
    }
}
