//! Inspects the topic for `countd check`: what its brokers say of it, and what of that endangers events.

use super::client::{self, Context};
use super::describe::TopicDescription;
use super::error::TopicError;
use super::guard::TopicGuard;
use super::offsets::TIMEOUT;
use super::producer::Producer;
use super::topic::{TopicIdentity, describe_topic};
use crate::domain::config::Config;
use crate::domain::keys::Partition;
use crate::log::published;
use crate::redis::store::Store;
use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{Offset, TopicPartitionList};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// The topic in a few words.
    pub summary: String,
    /// Why countd cannot use it, and what endangers events.
    pub risks: Vec<TopicRisk>,
}

/// What is wrong with a topic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopicRisk {
    /// This many partitions have no leader.
    #[error("{0} partitions of the topic have no leader")]
    Leaderless(usize),
    /// The replication factor is 1.
    #[error(
        "the topic has a replication factor of 1: a broker that is lost takes its uncounted events with it"
    )]
    SingleReplica,
    /// The brokers are older than IDs of topics.
    #[error(
        "the brokers have no IDs of topics (Kafka 2.8 and newer have): a topic that is created again is noticed only if it ends before a position"
    )]
    NoIds,
    /// The user lacks the operation Read.
    #[error("the user may not read the topic (operation Read)")]
    MayNotRead,
    /// The user lacks the operation Write.
    #[error("the user may not append to the topic (operation Write)")]
    MayNotWrite,
    /// `cleanup.policy` has another value than `delete`.
    #[error(
        "cleanup.policy is {0}: compaction removes events that were not counted; it must be delete"
    )]
    CleanupPolicy(String),
    /// `min.insync.replicas` is 1.
    #[error("min.insync.replicas is 1: an event is confirmed although only one broker has it")]
    MinInsyncReplicas,
    /// `retention.bytes` is a limit.
    #[error("retention.bytes is {0}: a burst removes events that were not counted; -1 is no limit")]
    RetentionBytes(String),
    /// `retention.ms` is short.
    #[error("retention.ms is {0}: events that are not counted for that time are lost")]
    RetentionMs(i64),
    /// `unclean.leader.election.enable` is true.
    #[error("unclean.leader.election.enable is true: confirmed events can be lost")]
    UncleanElection,
    /// Counted entries of this many partitions have no copy.
    #[error(
        "counted entries of {0} partitions have no copy in the topic: they were too large for it, or were removed from the streams before they were copied. A rebuild needs a baseline that is younger"
    )]
    NotCopied(usize),
    /// The user may not read the configuration of the topic.
    #[error(
        "the configuration of the topic cannot be read, so cleanup.policy and retention are not checked: {0}"
    )]
    UnknownConfiguration(String),
    /// Offsets cannot be committed for the consumer group.
    #[error(
        "offsets of the consumer group {group} cannot be published, so lag tools do not see them: {error}. The user needs Read on the group, and no other program may be a member of it (kafka.group)"
    )]
    Group {
        /// The consumer group.
        group: String,
        /// The error of the broker.
        error: String,
    },
}

impl TopicRisk {
    /// Whether countd cannot use the topic.
    pub fn is_problem(&self) -> bool {
        matches!(
            self,
            TopicRisk::Leaderless(_)
                | TopicRisk::MayNotRead
                | TopicRisk::MayNotWrite
                | TopicRisk::CleanupPolicy(_)
        )
    }
}

/// Inspects the topic of the configuration.
///
/// # Errors
/// Redis or Kafka is unavailable, or the topic cannot be used with the data.
pub async fn inspect_topic(config: &Config, store: &Store) -> Result<Inspection, TopicError> {
    let settings = Arc::new(config.kafka.clone());
    let stored = TopicIdentity::stored(store).await?;
    let producer = Producer::new(&settings, settings.timeout_ms, TopicGuard::default())?;
    let described = describe_topic(&producer, settings.timeout().min(TIMEOUT)).await;
    let described = described.map_err(|error| match error {
        TopicError::Unavailable(reason) => {
            let brokers = settings.brokers.join(", ");
            TopicError::Unavailable(format!("{reason} (kafka.brokers: {brokers})"))
        }
        error => error,
    })?;
    let identity = TopicIdentity::of(&settings.topic, &described, store.keys())?;
    if let Some(stored) = stored {
        stored.check(&identity)?;
    }
    if let Some(truncation) = store.layout().truncations().first() {
        return Err(TopicError::Truncated(*truncation));
    }
    let admin: AdminClient<Context> = client::create(&client::of_producer(&settings))?;
    let resource = ResourceSpecifier::Topic(&settings.topic);
    let options = AdminOptions::new().request_timeout(Some(settings.timeout().min(TIMEOUT)));
    let configuration = admin.describe_configs([&resource], &options).await;
    let configuration = configuration
        .map_err(|error| error.to_string())
        .and_then(|mut all| match all.pop() {
            // The client drops the error of the topic, and returns no entries.
            Some(Ok(resource)) if resource.entries.is_empty() => Err(
                "the broker returned no settings (the user needs the operation DescribeConfigs)"
                    .to_owned(),
            ),
            Some(Ok(resource)) => Ok(resource),
            Some(Err(code)) => Err(code.to_string()),
            None => Err("no reply".to_owned()),
        });
    let mut inspection = Inspection {
        summary: format!(
            "{} with {} partitions, {} replicas each",
            settings.topic, described.partitions, described.min_replicas
        ),
        ..Inspection::default()
    };
    add_description(&described, &mut inspection);
    match configuration {
        Ok(resource) => {
            let entries = resource.entries.iter();
            let values =
                entries.filter_map(|entry| Some((entry.name.as_str(), entry.value.as_deref()?)));
            add_configuration(&values.collect(), &mut inspection);
        }
        Err(error) => inspection
            .risks
            .push(TopicRisk::UnknownConfiguration(error)),
    }
    let all: Vec<Partition> = (0..store.keys().partitions()).collect();
    let histories = published::histories(store, &all).await?;
    let gaps = histories.iter().filter(|of| of.after_gap().is_some());
    match gaps.count() {
        0 => {}
        gaps => inspection.risks.push(TopicRisk::NotCopied(gaps)),
    }
    if let Err(error) = check_group(&settings.topic, config).await {
        let group = settings.group.clone();
        inspection.risks.push(TopicRisk::Group { group, error });
    }
    Ok(inspection)
}

/// Adds what the description of the topic says.
fn add_description(described: &TopicDescription, inspection: &mut Inspection) {
    let operations = described.operations;
    let risks = [
        (
            described.leaderless > 0,
            TopicRisk::Leaderless(described.leaderless),
        ),
        (described.min_replicas < 2, TopicRisk::SingleReplica),
        (described.id.is_none(), TopicRisk::NoIds),
        (
            operations.is_some_and(|may| !may.read),
            TopicRisk::MayNotRead,
        ),
        (
            operations.is_some_and(|may| !may.write),
            TopicRisk::MayNotWrite,
        ),
    ];
    add(risks, inspection);
}

/// Adds the risks that the topic has.
fn add<const N: usize>(risks: [(bool, TopicRisk); N], inspection: &mut Inspection) {
    let risks = risks.into_iter().filter(|(is_present, _)| *is_present);
    inspection.risks.extend(risks.map(|(_, risk)| risk));
}

/// Adds what the configuration of the topic says.
fn add_configuration(values: &HashMap<&str, &str>, inspection: &mut Inspection) {
    let value = |name: &str| values.get(name).copied().unwrap_or_default();
    let (policy, bytes) = (value("cleanup.policy"), value("retention.bytes"));
    let retention: i64 = value("retention.ms").parse().unwrap_or(-1);
    let risks = [
        (
            policy != "delete",
            TopicRisk::CleanupPolicy(policy.to_owned()),
        ),
        (
            value("min.insync.replicas") == "1",
            TopicRisk::MinInsyncReplicas,
        ),
        (bytes != "-1", TopicRisk::RetentionBytes(bytes.to_owned())),
        (
            (0..DAY_MS).contains(&retention),
            TopicRisk::RetentionMs(retention),
        ),
        (
            value("unclean.leader.election.enable") == "true",
            TopicRisk::UncleanElection,
        ),
    ];
    add(risks, inspection);
}

/// A retention that is shorter is short: nobody may be there to notice that events are not counted.
const DAY_MS: i64 = 24 * 3_600 * 1_000;

/// Commits the offset of a partition that the group has already, or 0 if it has none: countd never reads offsets, and a process that runs soon
/// publishes its own. That requires the rights to describe and to read the group, and that nobody else is a member of it.
async fn check_group(topic: &str, config: &Config) -> Result<(), String> {
    let (topic, settings) = (topic.to_owned(), config.kafka.clone());
    let checked = spawn_blocking(move || {
        let consumer: BaseConsumer<Context> =
            client::create(&client::of_consumer(&settings)).map_err(|error| error.to_string())?;
        let offset_of_first = |offset| {
            let mut list = TopicPartitionList::new();
            list.add_partition_offset(&topic, 0, offset)
                .map_err(|error| error.to_string())?;
            Ok::<_, String>(list)
        };
        let timeout = settings.timeout().min(TIMEOUT);
        let committed = consumer
            .committed_offsets(offset_of_first(Offset::Invalid)?, timeout)
            .map_err(|error| error.to_string())?;
        let committed = committed.elements().first().map(|element| element.offset());
        let offset = match committed {
            Some(Offset::Offset(offset)) => Offset::Offset(offset),
            _ => Offset::Offset(0),
        };
        let list = offset_of_first(offset)?;
        consumer
            .commit(&list, CommitMode::Sync)
            .map_err(|error| error.to_string())
    });
    checked.await.map_err(|error| error.to_string())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn risks_of_the_configuration_are_named() {
        let found = |pairs: &[(&'static str, &'static str)]| {
            let mut values = HashMap::from([
                ("cleanup.policy", "delete"),
                ("min.insync.replicas", "2"),
                ("retention.bytes", "-1"),
                ("retention.ms", "604800000"),
            ]);
            values.extend(pairs.iter().copied());
            let mut inspection = Inspection::default();
            add_configuration(&values, &mut inspection);
            let problems = inspection.risks.iter().filter(|risk| risk.is_problem());
            let problems = problems.count();
            (problems, inspection.risks.len() - problems)
        };
        assert_eq!(found(&[]), (0, 0));
        assert_eq!(found(&[("cleanup.policy", "compact")]), (1, 0));
        assert_eq!(found(&[("cleanup.policy", "compact,delete")]), (1, 0));
        assert_eq!(found(&[("min.insync.replicas", "1")]), (0, 1));
        assert_eq!(found(&[("retention.bytes", "1000000")]), (0, 1));
        assert_eq!(found(&[("retention.ms", "3600000")]), (0, 1));
        assert_eq!(found(&[("retention.ms", "-1")]), (0, 0));
    }
}
