//! `countd log accept-topic`: makes the topic of the configuration that of the data.

use crate::consumer::{load_topic_offsets, topic_field};
use crate::domain::config::{Config, LogKind};
use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use crate::log::kafka::{Ends, TopicError, TopicHistory, TopicIdentity, offsets_of, topic_of};
use crate::redis::layout::{Truncation, forget_permissions};
use crate::redis::permissions::Permissions;
use crate::redis::processes::live_processes;
use crate::redis::store::Store;

/// Commands that this file sends.
const PERMISSIONS: &[&str] = &["HSET {position} 0 1"];

/// Where counting begins in the topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At its first records.
    Earliest,
    /// After its last records.
    Latest,
}

/// Why a topic was not accepted. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// The log of the configuration is not in Kafka.
    #[error("log.kind is \"streams\": there is no topic")]
    NoTopic,
    /// Processes use the data.
    #[error(
        "{0} processes use this data: stop them first (one that was killed counts for some seconds)"
    )]
    InUse(usize),
    /// The former topic has uncounted records.
    #[error(
        "up to {count} records of the topic {topic} are not counted: let countd count them first, or give them up with --lose-uncounted"
    )]
    Uncounted {
        /// The former topic.
        topic: String,
        /// The maximum number of its uncounted records: positions of partitions without records advance every few seconds.
        count: u64,
    },
    /// It is the topic of the data, and has lost records that were counted.
    #[error(
        "{0}. New records have got the offsets of counted ones: set kafka.topic to another topic, and accept that"
    )]
    Truncated(Truncation),
    /// The topic cannot be used.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// Redis failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The topic that belongs to the data now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The topic.
    pub topic: TopicIdentity,
    /// Whether it was another one before, or none.
    pub is_changed: bool,
}

/// The permissions to accept a topic.
pub fn required_permissions() -> Permissions {
    Permissions::of_commands(PERMISSIONS).and(forget_permissions())
}

/// Makes the topic of the configuration that of the data, unless it is.
///
/// If partitions were added to the topic, those that no event was moved from keep their positions. Otherwise counting begins at `start`.
///
/// # Errors
/// Nothing has changed, unless Redis failed: then the command can be repeated.
pub async fn accept(
    config: &Config,
    store: &Store,
    start: Start,
    loses_uncounted: bool,
) -> Result<Accepted, AcceptError> {
    if config.log.kind != LogKind::Kafka {
        return Err(AcceptError::NoTopic);
    }
    let live = live_processes(store).await.map_err(StoreError::from)?.len();
    if live > 0 {
        return Err(AcceptError::InUse(live));
    }
    let stored = TopicIdentity::stored(store).await?;
    let found = topic_of(config, store.keys(), &config.kafka.topic).await?;
    if stored.as_ref() == Some(&found) {
        if let Some(truncation) = store.layout().truncations().first() {
            return Err(AcceptError::Truncated(*truncation));
        }
        return Ok(Accepted {
            topic: found,
            is_changed: false,
        });
    }
    let all: Vec<Partition> = (0..store.keys().partitions()).collect();
    let positions = load_topic_offsets(store, &all).await?;
    let mut is_grown = false;
    if let Some(stored) = &stored {
        let is_same = stored.name == found.name && stored.id.is_some() && stored.id == found.id;
        is_grown = is_same && stored.partitions < found.partitions;
        let former = match is_same {
            true => Ok(found.clone()),
            false => topic_of(config, store.keys(), &stored.name).await,
        };
        // A topic that does not exist any more, or was created again, has no records left.
        let is_left = match &former {
            Ok(former) => former.id == stored.id,
            Err(error) if error.is_transient() => return Err(former_error(former)),
            Err(_) => false,
        };
        if is_left && !loses_uncounted {
            let ends = offsets_of(config, &stored.name, stored.partitions, Ends::Last).await?;
            let count = uncounted(stored, &all, &positions, &ends);
            if count > 0 {
                let topic = stored.name.clone();
                return Err(AcceptError::Uncounted { topic, count });
            }
        }
    }
    let end = match start {
        Start::Earliest => Ends::First,
        Start::Latest => Ends::Last,
    };
    let begins = offsets_of(config, &found.name, found.partitions, end).await?;
    let mut pipe = redis::pipe();
    let keys = store.keys();
    for partition in &all {
        let of_topic = found.partition_of(*partition);
        let is_kept = is_grown
            && stored
                .as_ref()
                .is_some_and(|stored| stored.partition_of(*partition) == of_topic);
        if !is_kept {
            let begin = begins.get(usize::from(of_topic)).copied().unwrap_or(0);
            let key = keys.position(*partition);
            pipe.cmd("HSET")
                .arg(key)
                .arg(topic_field(*partition))
                .arg(begin);
            pipe.ignore();
        }
    }
    let written: Result<(), redis::RedisError> = pipe.query_async(&mut store.commands()).await;
    written.map_err(StoreError::from)?;
    TopicHistory::restart(store).await?;
    store.forget_truncations().await?;
    found.record(store).await?;
    Ok(Accepted {
        topic: found,
        is_changed: true,
    })
}

fn former_error(former: Result<TopicIdentity, TopicError>) -> AcceptError {
    match former {
        Err(error) => error.into(),
        Ok(found) => TopicError::Missing(found.name).into(),
    }
}

/// The maximum number of records that are not counted, by the positions of each topic partition.
fn uncounted(
    topic: &TopicIdentity,
    partitions: &[Partition],
    positions: &[Option<u64>],
    ends: &[u64],
) -> u64 {
    let mut counted: Vec<Option<u64>> = vec![None; usize::from(topic.partitions)];
    for (partition, position) in partitions.iter().zip(positions) {
        let position = position.unwrap_or(0);
        if let Some(least) = counted.get_mut(usize::from(topic.partition_of(*partition))) {
            *least = Some(least.map_or(position, |least| least.min(position)));
        }
    }
    let counted = counted.into_iter().map(|position| position.unwrap_or(0));
    let ends = ends.iter().zip(counted);
    ends.map(|(end, counted)| end.saturating_sub(counted)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_partition_decides_what_is_uncounted() {
        let topic = TopicIdentity {
            name: "t".to_owned(),
            id: None,
            partitions: 2,
        };
        let partitions = [0, 1, 2, 3];
        let positions = [Some(10), Some(5), Some(7), None];
        assert_eq!(uncounted(&topic, &partitions, &positions, &[10, 5]), 3 + 5);
        assert_eq!(uncounted(&topic, &partitions, &positions, &[7, 0]), 0);
    }
}
