//! The topic that belongs to the data: found at the start, recorded in the stored layout, and compared from then on.

use super::describe::TopicDescription;
use super::error::TopicError;
use super::guard::TopicGuard;
use super::history::TopicHistory;
use super::producer::Producer;
use super::watermarks::Watcher;
use crate::domain::config::{Config, KafkaConfig, LogKind};
use crate::domain::error::StoreError;
use crate::domain::keys::{Keys, Partition};
use crate::redis::layout::StoredLayout;
use crate::redis::store::Store;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;

/// The maximum number of partitions of the topic.
const MAX_PARTITIONS: usize = 1_024;
/// The time for which a process waits for brokers when it starts and knows the topic.
const START_TIMEOUT: Duration = Duration::from_secs(3);
/// The timeout of a comparison of the topic.
const VERIFY_TIMEOUT: Duration = Duration::from_secs(5);
/// The field of the stored layout with the topic.
const FIELD: &str = "topic";
/// Stands for the ID of a topic whose brokers have no IDs of topics.
const NO_ID: &str = "-";

/// Which topic it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicIdentity {
    /// Its name.
    pub name: String,
    /// The ID that its brokers gave it; `None` if they have no IDs.
    pub id: Option<String>,
    /// The number of its partitions, a power of two.
    pub partitions: u16,
}

impl TopicIdentity {
    /// The form in the stored layout: the number of partitions, the ID and the name.
    fn to_field(&self) -> String {
        let id = self.id.as_deref().unwrap_or(NO_ID);
        format!("{} {id} {}", self.partitions, self.name)
    }

    fn from_field(field: &str) -> Option<TopicIdentity> {
        let mut parts = field.splitn(3, ' ');
        let partitions: u16 = parts.next()?.parse().ok()?;
        let id = parts.next().filter(|id| !id.is_empty())?;
        let name = parts.next().filter(|name| !name.is_empty())?;
        partitions.is_power_of_two().then(|| TopicIdentity {
            name: name.to_owned(),
            id: (id != NO_ID).then(|| id.to_owned()),
            partitions,
        })
    }

    /// The partition of the topic that has the events of a partition of the data.
    pub fn partition_of(&self, partition: Partition) -> u16 {
        partition % self.partitions
    }

    /// The topic of the data; `None` if its log was never in Kafka.
    ///
    /// # Errors
    /// Redis is unavailable, or a newer version recorded the topic.
    pub async fn stored(store: &Store) -> Result<Option<TopicIdentity>, TopicError> {
        let field = store.layout_field(FIELD).await.map_err(StoreError::from)?;
        field.map(|field| TopicIdentity::parse(&field)).transpose()
    }

    fn parse(field: &str) -> Result<TopicIdentity, TopicError> {
        TopicIdentity::from_field(field).ok_or_else(|| {
            let problem =
                format!("the topic of this data is {field:?}, which this version does not support");
            TopicError::Data(problem)
        })
    }

    /// Records this topic as that of the data, instead of any other.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn record(&self, store: &Store) -> Result<(), TopicError> {
        let recorded = store.set_layout_field(FIELD, &self.to_field()).await;
        Ok(recorded.map_err(StoreError::from)?)
    }

    /// The identity of a topic that its brokers describe.
    ///
    /// # Errors
    /// It has a number of partitions that entities cannot be assigned to.
    pub fn of(
        name: &str,
        described: &TopicDescription,
        keys: Keys,
    ) -> Result<TopicIdentity, TopicError> {
        let max = usize::from(keys.partitions()).min(MAX_PARTITIONS);
        let count = described.partitions;
        match u16::try_from(count) {
            Ok(partitions) if partitions.is_power_of_two() && count <= max => Ok(TopicIdentity {
                name: name.to_owned(),
                id: described.id.clone(),
                partitions,
            }),
            _ => Err(TopicError::Partitions {
                topic: name.to_owned(),
                found: count,
                max: u16::try_from(max).unwrap_or(u16::MAX),
            }),
        }
    }

    /// Checks that a topic is the one that the data was counted from.
    ///
    /// # Errors
    /// It is another one, or has got partitions.
    pub fn check(&self, found: &TopicIdentity) -> Result<(), TopicError> {
        if self.name != found.name {
            return Err(TopicError::OtherTopic {
                stored: self.name.clone(),
                configured: found.name.clone(),
            });
        }
        if let (Some(stored), Some(id)) = (&self.id, &found.id)
            && stored != id
        {
            return Err(TopicError::Recreated {
                topic: self.name.clone(),
                found: id.clone(),
                stored: stored.clone(),
            });
        }
        match self.partitions == found.partitions {
            true => Ok(()),
            false => Err(TopicError::Grown {
                topic: self.name.clone(),
                found: found.partitions,
                stored: self.partitions,
            }),
        }
    }
}

/// The topic of the data, and a producer for it. Cheap to clone.
#[derive(Clone)]
pub struct Topic {
    identity: Arc<TopicIdentity>,
    settings: Arc<KafkaConfig>,
    keys: Keys,
    producer: Producer,
    guard: TopicGuard,
    watcher: Watcher,
}

impl Topic {
    /// Finds the topic of the configuration, and records it if the data has none yet. `None` if the log is not in Kafka. If the data has a
    /// topic, it is used without asking the brokers when none is reachable; [`verify`](Self::verify) does later.
    ///
    /// Waits up to `kafka.timeout_ms` for a broker, or 3 seconds if the data has a topic.
    ///
    /// # Errors
    /// The topic cannot be used with the data, Redis failed, or the data has no topic yet and no broker is reachable.
    pub async fn open(config: &Config, store: &Store) -> Result<Option<Topic>, TopicError> {
        if config.log.kind != LogKind::Kafka {
            if store.layout().has_topic {
                // Streams are trimmed, and not copied.
                TopicHistory::restart(store).await?;
            }
            return Ok(None);
        }
        let keys = store.keys();
        if !keys.is_murmur2() {
            let problem = "this data was created by a version whose partitions are not those of Kafka's partitioner";
            return Err(TopicError::Data(problem.to_owned()));
        }
        if store.layout().archives {
            let problem =
                "this data has an archive, which would miss events in the topic: end it first";
            return Err(TopicError::Data(problem.to_owned()));
        }
        let settings = Arc::new(config.kafka.clone());
        let guard = TopicGuard::default();
        let producer = Producer::new(&settings, settings.timeout_ms, guard.clone())?;
        let stored = TopicIdentity::stored(store).await?;
        let timeout = match &stored {
            // The process can start without brokers.
            Some(_) => settings.timeout().min(START_TIMEOUT),
            None => settings.timeout(),
        };
        let found = describe_topic(&producer, timeout)
            .await
            .and_then(|described| TopicIdentity::of(&settings.topic, &described, keys));
        let identity = match (stored, found) {
            (Some(stored), Ok(found)) => {
                stored.check(&found)?;
                // The brokers were upgraded.
                let has_got_id = stored.id.is_none() && found.id.is_some();
                if has_got_id {
                    found.record(store).await?;
                }
                if has_got_id { found } else { stored }
            }
            (Some(stored), Err(error)) if error.is_transient() => {
                if stored.name != settings.topic {
                    return Err(TopicError::OtherTopic {
                        stored: stored.name,
                        configured: settings.topic.clone(),
                    });
                }
                tracing::warn!(%error, "the topic is not checked now");
                stored
            }
            (None, Ok(found)) => {
                TopicHistory::begin(store).await?;
                let recorded = store.layout_field_or_init(FIELD, &found.to_field()).await;
                let recorded = TopicIdentity::parse(&recorded.map_err(StoreError::from)?)?;
                // Another process may have been faster.
                recorded.check(&found)?;
                // From now on, all changes of counters are in the log.
                let refreshed = store.refresh_layout().await;
                refreshed.map_err(|error| TopicError::Data(error.to_string()))?;
                recorded
            }
            (_, Err(error)) => return Err(error),
        };
        Ok(Some(Topic {
            identity: Arc::new(identity),
            settings,
            keys,
            producer,
            guard,
            watcher: Watcher::default(),
        }))
    }

    /// Which topic it is.
    pub fn identity(&self) -> &TopicIdentity {
        &self.identity
    }

    /// The settings.
    pub fn settings(&self) -> &KafkaConfig {
        &self.settings
    }

    /// The keys of the data.
    pub fn keys(&self) -> Keys {
        self.keys
    }

    /// The producer.
    pub fn producer(&self) -> &Producer {
        &self.producer
    }

    /// Another producer, whose records do not fail while no broker is reachable, so that none is appended after a later one.
    ///
    /// # Errors
    /// librdkafka rejects a setting.
    pub fn patient_producer(&self) -> Result<Producer, TopicError> {
        Producer::new(&self.settings, 0, self.guard.clone())
    }

    /// Why nothing may be appended now; `None` if nothing is wrong with the topic. `layout` is the current layout of the data.
    pub fn refusal(&self, layout: &StoredLayout) -> Option<TopicError> {
        if let Some(truncation) = layout.truncations().first() {
            return Some(TopicError::Truncated(*truncation));
        }
        self.guard.refusal().map(TopicError::Refused)
    }

    /// What the brokers say of it.
    pub(super) fn guard(&self) -> &TopicGuard {
        &self.guard
    }

    /// What watches it.
    pub(super) fn watcher(&self) -> &Watcher {
        &self.watcher
    }

    /// Asks the brokers whether it is still the topic of the data.
    ///
    /// # Errors
    /// No broker is reachable, or it is another topic.
    pub async fn verify(&self) -> Result<(), TopicError> {
        let timeout = self.settings.timeout().min(VERIFY_TIMEOUT);
        let described = describe_topic(&self.producer, timeout).await?;
        let found = TopicIdentity::of(&self.identity.name, &described, self.keys)?;
        self.identity.check(&found)
    }
}

/// The identity of a topic of the configuration's brokers, for data with these keys.
///
/// # Errors
/// No broker is reachable, or the topic cannot be used.
pub async fn topic_of(
    config: &Config,
    keys: Keys,
    name: &str,
) -> Result<TopicIdentity, TopicError> {
    let settings = Arc::new(KafkaConfig {
        topic: name.to_owned(),
        ..config.kafka.clone()
    });
    let guard = TopicGuard::default();
    let producer = Producer::new(&settings, settings.timeout_ms, guard)?;
    let described = describe_topic(&producer, settings.timeout()).await?;
    TopicIdentity::of(name, &described, keys)
}

pub(super) async fn describe_topic(
    producer: &Producer,
    timeout: Duration,
) -> Result<TopicDescription, TopicError> {
    let producer = producer.clone();
    let described = spawn_blocking(move || producer.describe_topic(timeout)).await;
    described.map_err(|error| TopicError::Unavailable(error.to_string()))?
}

#[cfg(test)]
impl Topic {
    /// A topic without data.
    pub(super) fn for_test(identity: TopicIdentity, settings: KafkaConfig, keys: Keys) -> Topic {
        let (settings, guard) = (Arc::new(settings), TopicGuard::default());
        let producer = Producer::new(&settings, settings.timeout_ms, guard.clone());
        Topic {
            identity: Arc::new(identity),
            producer: producer.expect("valid settings"),
            settings,
            keys,
            guard,
            watcher: Watcher::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(id: Option<&str>, partitions: u16) -> TopicIdentity {
        TopicIdentity {
            name: "cnt-update".to_owned(),
            id: id.map(str::to_owned),
            partitions,
        }
    }

    #[test]
    fn the_stored_form_survives_a_round_trip() {
        for one in [identity(Some("a_b-c"), 64), identity(None, 1)] {
            assert_eq!(TopicIdentity::from_field(&one.to_field()), Some(one));
        }
        for field in ["", "64", "64 x", "64 x ", "3 x t", "65536 x t", "a x t"] {
            assert_eq!(TopicIdentity::from_field(field), None, "{field:?}");
        }
    }

    #[test]
    fn another_id_name_or_number_of_partitions_is_refused() {
        let stored = identity(Some("one"), 8);
        assert!(stored.check(&identity(Some("one"), 8)).is_ok());
        assert!(
            stored.check(&identity(None, 8)).is_ok(),
            "an ID is not known"
        );
        assert!(matches!(
            stored.check(&identity(Some("two"), 8)),
            Err(TopicError::Recreated { .. })
        ));
        assert!(matches!(
            stored.check(&identity(Some("one"), 16)),
            Err(TopicError::Grown {
                found: 16,
                stored: 8,
                ..
            })
        ));
        let other = TopicIdentity {
            name: "other".to_owned(),
            ..stored.clone()
        };
        assert!(matches!(
            stored.check(&other),
            Err(TopicError::OtherTopic { .. })
        ));
    }

    #[test]
    fn partitions_are_a_power_of_two_and_no_more_than_those_of_the_data() {
        use crate::domain::keys::PartitionHash;
        let keys = Keys::new(64, false, PartitionHash::Murmur2);
        let of = |partitions| {
            let described = TopicDescription {
                id: None,
                partitions,
                min_replicas: 1,
                leaderless: 0,
                operations: None,
            };
            TopicIdentity::of("t", &described, keys).is_ok()
        };
        for (partitions, is_usable) in
            [(1, true), (64, true), (0, false), (48, false), (128, false)]
        {
            assert_eq!(of(partitions), is_usable, "{partitions}");
        }
    }
}
