//! Checks the topic, if the log is in Kafka.

use super::report::{Finding, Remedy, Report};
use crate::cli::error::CommandError;
use countd::domain::config::{Config, KafkaConfig, LogKind};
use countd::log::kafka::{TopicError, TopicIdentity, TopicRisk, inspect_topic};
use countd::redis::store::Store;
use std::io::Write;

/// Checks the topic of the configuration.
pub(super) async fn check(
    config: &Config,
    store: &Store,
    report: &mut Report<impl Write>,
) -> Result<(), CommandError> {
    if config.log.kind == LogKind::Streams {
        // Its name is enough for the note.
        if let Ok(Some(stored)) = TopicIdentity::stored(store).await {
            report.add(&of_former(&stored.name))?;
        }
        return Ok(());
    }
    let inspection = match inspect_topic(config, store).await {
        Ok(inspection) => inspection,
        Err(error) => {
            report.add_and_fail(&of_error(&config.kafka, &error))?;
            return Ok(());
        }
    };
    let (problems, notes): (Vec<_>, Vec<_>) =
        inspection.risks.iter().partition(|risk| risk.is_problem());
    for risk in &problems {
        report.add_and_fail(&of_risk(&config.kafka, risk))?;
    }
    if problems.is_empty() {
        report.add(&Finding::ok(format!("topic: ok, {}", inspection.summary)))?;
    }
    for risk in notes {
        report.add(&of_risk(&config.kafka, risk))?;
    }
    Ok(())
}

/// Data whose log was in a topic before.
pub(super) fn of_former(topic: &str) -> Finding {
    let note = format!(
        "the log of this data was in the topic {topic}, whose uncounted records are not counted with log.kind = \"streams\""
    );
    let advice = "no command counts them: set log.kind = \"kafka\" again until countd_lag_events is 0, if records may be left";
    Finding::note(note, Remedy::advice(advice))
}

/// Why the topic cannot be used.
pub(super) fn of_error(kafka: &KafkaConfig, error: &TopicError) -> Finding {
    let topic = &kafka.topic;
    let advice = |text: &str| Remedy::advice(text);
    let remedy = match error {
        TopicError::Unavailable(_) => advice(
            "no command of countd starts a broker: start one of kafka.brokers, or correct the addresses and the security settings in kafka.properties",
        ),
        TopicError::TooLarge(_) => Remedy::command(alter(kafka, "max.message.bytes=2000000"))
            .knowing("also kafka.properties \"message.max.bytes\" of countd"),
        TopicError::Settings(_) => {
            advice("no command: correct the setting of kafka.properties that the message names")
        }
        TopicError::Missing(_) => Remedy::command(format!(
            "{} --create --topic {topic} --partitions 64 --replication-factor 3 --config cleanup.policy=delete --config min.insync.replicas=2 --config retention.bytes=-1",
            tool(kafka, "kafka-topics.sh")
        ))
        .knowing("the number of partitions is a power of two, and cannot be changed later"),
        TopicError::Forbidden(_, _) => Remedy::command(allow(kafka, "Describe")),
        TopicError::Partitions { .. } => {
            advice("no command takes partitions away: create another topic, set kafka.topic, and start with that")
        }
        TopicError::OtherTopic { .. } | TopicError::Recreated { .. } | TopicError::Grown { .. } => {
            Remedy::command("countd log accept-topic").knowing(
                "for data that shall go on with this topic. It refuses while records of the former one are not counted; docs/countd/kafka.md#another-topic has all steps",
            )
        }
        TopicError::Refused(_) => {
            advice("no command of countd repairs it: see the topic of the brokers in kafka.brokers, and docs/countd/kafka.md#another-topic")
        }
        TopicError::Truncated(_) => advice(
            "no command brings its records back: stop all producers, and switch to another topic, by the steps of docs/countd/kafka.md#another-topic. Then produce again what the topic has lost",
        ),
        TopicError::Data(_) => {
            advice("no command changes that: set log.kind = \"streams\", or end what the message names first")
        }
        TopicError::Store(_) => {
            advice("no command of countd starts a server: start Redis, and check again")
        }
    };
    Finding::problem(format!("topic: {error}"), remedy)
}

/// What endangers events.
pub(super) fn of_risk(kafka: &KafkaConfig, risk: &TopicRisk) -> Finding {
    let topic = &kafka.topic;
    let remedy = match risk {
        TopicRisk::Leaderless(_) => Remedy::command(format!(
            "{} --describe --topic {topic} --unavailable-partitions",
            tool(kafka, "kafka-topics.sh")
        ))
        .knowing("it names the brokers of these partitions: start them. No command brings a partition back without one"),
        TopicRisk::SingleReplica => Remedy::command(format!(
            "{} --reassignment-json-file replicas.json --execute",
            tool(kafka, "kafka-reassign-partitions.sh")
        ))
        .knowing("replicas.json has three brokers for each partition. On one broker nothing can be done"),
        TopicRisk::NoIds => Remedy::advice(
            "no command: upgrade the brokers to Kafka 2.8 or newer, and do not delete the topic until then",
        ),
        TopicRisk::MayNotRead => Remedy::command(allow(kafka, "Read")),
        TopicRisk::MayNotWrite => Remedy::command(allow(kafka, "Write")),
        TopicRisk::CleanupPolicy(_) => Remedy::command(alter(kafka, "cleanup.policy=delete")),
        TopicRisk::MinInsyncReplicas => Remedy::command(alter(kafka, "min.insync.replicas=2"))
            .knowing("the topic needs at least two replicas, or nothing can be appended"),
        TopicRisk::RetentionBytes(_) => Remedy::command(alter(kafka, "retention.bytes=-1")),
        TopicRisk::RetentionMs(_) => Remedy::command(alter(kafka, "retention.ms=604800000")),
        TopicRisk::UncleanElection => {
            Remedy::command(alter(kafka, "unclean.leader.election.enable=false"))
        }
        TopicRisk::NotCopied(_) => Remedy::command("countd archive baseline --archive DIR").knowing(
            "it takes the counters for right as they are. If the log says that an event is not copied because it is too large, first raise max.message.bytes of the topic and kafka.properties \"message.max.bytes\". This note stays: rebuilds with --from earliest are refused from now on",
        ),
        TopicRisk::UnknownConfiguration(_) => Remedy::command(allow(kafka, "DescribeConfigs")),
        TopicRisk::Group { group, .. } => Remedy::command(format!(
            "{} --add --allow-principal User:USER --operation Read --group {group}",
            tool(kafka, "kafka-acls.sh")
        ))
        .knowing("without ACLs: set kafka.group to a group that no other program uses"),
    };
    let text = format!("topic: {risk}");
    match risk.is_problem() {
        true => Finding::problem(text, remedy),
        false => Finding::note(risk.to_string(), remedy),
    }
}

/// A program of Kafka, with the brokers.
fn tool(kafka: &KafkaConfig, program: &str) -> String {
    format!("{program} --bootstrap-server {}", kafka.brokers.join(","))
}

/// Changes a setting of the topic.
fn alter(kafka: &KafkaConfig, setting: &str) -> String {
    format!(
        "{} --alter --entity-type topics --entity-name {} --add-config {setting}",
        tool(kafka, "kafka-configs.sh"),
        kafka.topic
    )
}

/// Allows the user an operation on the topic.
fn allow(kafka: &KafkaConfig, operation: &str) -> String {
    format!(
        "{} --add --allow-principal User:USER --operation {operation} --topic {}",
        tool(kafka, "kafka-acls.sh"),
        kafka.topic
    )
}
