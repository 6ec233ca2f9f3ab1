//! Inspects the topic for `countd check`: what its brokers say of it, and what of that endangers events.

use super::client::{self, Context};
use super::describe::TopicDescription;
use super::error::TopicError;
use super::offsets::TIMEOUT;
use super::producer::Producer;
use super::topic::{TopicIdentity, describe_topic};
use crate::domain::config::Config;
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
    /// Why countd cannot use it.
    pub problems: Vec<String>,
    /// What endangers events.
    pub notes: Vec<String>,
}

/// Inspects the topic of the configuration.
///
/// # Errors
/// Redis or Kafka is unavailable, or the topic cannot be used with the data.
pub async fn inspect_topic(config: &Config, store: &Store) -> Result<Inspection, TopicError> {
    let settings = Arc::new(config.kafka.clone());
    let stored = TopicIdentity::stored(store).await?;
    let producer = Producer::new(&settings, settings.timeout_ms)?;
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
    let admin: AdminClient<Context> =
        client::create(&client::of_producer(&settings, settings.timeout_ms))?;
    let resource = ResourceSpecifier::Topic(&settings.topic);
    let options = AdminOptions::new().request_timeout(Some(settings.timeout().min(TIMEOUT)));
    let configuration = admin.describe_configs([&resource], &options).await;
    let configuration = configuration
        .map_err(|error| error.to_string())
        .and_then(|mut all| match all.pop() {
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
            let values = entries.filter_map(|entry| Some((entry.name.as_str(), entry.value.as_deref()?)));
            add_configuration(&values.collect(), &mut inspection);
        }
        Err(error) => inspection.notes.push(format!(
            "the configuration of the topic cannot be read, so cleanup.policy and retention are not checked: {error}"
        )),
    }
    if let Err(error) = check_group(&settings.topic, config).await {
        inspection.notes.push(format!(
            "offsets of the consumer group {} cannot be published, so lag tools do not see them: {error}. The user needs Read on the group, and no other program may be a member of it (kafka.group)",
            settings.group
        ));
    }
    Ok(inspection)
}

/// Adds what the description of the topic says.
fn add_description(described: &TopicDescription, inspection: &mut Inspection) {
    if described.leaderless > 0 {
        inspection.problems.push(format!(
            "{} partitions of the topic have no leader",
            described.leaderless
        ));
    }
    if described.min_replicas < 2 {
        let note = "the topic has a replication factor of 1: a broker that is lost takes its uncounted events with it";
        inspection.notes.push(note.to_owned());
    }
    if described.id.is_none() {
        let note = "the brokers have no IDs of topics (Kafka 2.8 and newer have): a topic that is created again is noticed only if it ends before a position";
        inspection.notes.push(note.to_owned());
    }
    if let Some(operations) = described.operations {
        if !operations.read {
            let problem = "the user may not read the topic (operation Read)";
            inspection.problems.push(problem.to_owned());
        }
        if !operations.write {
            let problem = "the user may not append to the topic (operation Write)";
            inspection.problems.push(problem.to_owned());
        }
    }
}

/// Adds what the configuration of the topic says.
fn add_configuration(values: &HashMap<&str, &str>, inspection: &mut Inspection) {
    let value = |name: &str| values.get(name).copied().unwrap_or_default();
    let policy = value("cleanup.policy");
    if policy != "delete" {
        inspection.problems.push(format!(
            "cleanup.policy is {policy}: compaction removes events that were not counted; it must be delete"
        ));
    }
    if value("min.insync.replicas") == "1" {
        let note =
            "min.insync.replicas is 1: an event is confirmed although only one broker has it";
        inspection.notes.push(note.to_owned());
    }
    if value("retention.bytes") != "-1" {
        inspection.notes.push(format!(
            "retention.bytes is {}: a burst removes events that were not counted; -1 is no limit",
            value("retention.bytes")
        ));
    }
    match value("retention.ms").parse::<i64>() {
        Ok(ms) if (0..DAY_MS).contains(&ms) => inspection.notes.push(format!(
            "retention.ms is {ms}: events that are not counted for that time are lost"
        )),
        _ => {}
    }
    if value("unclean.leader.election.enable") == "true" {
        let note = "unclean.leader.election.enable is true: confirmed events can be lost";
        inspection.notes.push(note.to_owned());
    }
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
            (inspection.problems.len(), inspection.notes.len())
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
