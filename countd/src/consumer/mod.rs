//! The consumer: polls the event log, aggregates events into batches and commits each batch exactly once.
//!
//! The position of a partition is stored beside its counters. A commit is one script: it compares the stored position with the
//! offset from which the batch was read, applies the increments, and advances the position. A batch can therefore be read several
//! times, by several consumers, and after a crash at any point. It is committed once.

mod accumulator;
mod aggregator;
mod archiver;
mod assignment;
mod authors;
mod backoff;
mod batch;
mod change_streams;
mod checks;
mod commit;
mod copied_outcomes;
mod copies;
mod counter_key;
mod credit_rules;
mod credits;
mod day_rule;
mod days;
mod dead_letter;
mod decoder;
mod derived;
mod event_ids;
mod increments;
mod journal;
mod lag;
mod membership;
mod outbox;
mod outbox_entries;
mod outbox_relay;
mod outcomes;
mod partition_health;
mod permissions;
mod position;
mod publisher;
mod ranks;
mod records;
pub mod replay;
mod reread;
mod rules;
mod schemas;
mod section;
pub mod server_history;
mod sums;
mod tables;
mod timeline_rule;
mod timelines;
mod topic_lag;
mod untrimmed;
mod user_checks;
mod worker;

pub(crate) use backoff::Backoff;
pub(crate) use decoder::{DecodedEntry, decode};
pub use permissions::required_permissions;
pub(crate) use position::{load_next_offsets, load_topic_offsets, topic_field};
pub(crate) use records::decode_record;

use crate::domain::config::Config;
use crate::domain::error::StoreError;
use crate::domain::health::Health;
use crate::domain::keys::Partition;
use crate::facts::compaction;
use crate::log::Streams;
use crate::log::kafka::Topic;
use crate::redis::store::Store;
use crate::repair::HotEntities;
use crate::repair::days as days_maintenance;
use crate::repair::ranks as ranks_maintenance;
use crate::storage::catalog::Catalog;
use crate::storage::hot::HotList;
use archiver::Archiver;
use membership::GroupMember;
use publisher::Publisher;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use topic_lag::WatchedTopic;
use worker::{Shared, Worker};

/// Forwards the current entries of a partition's outbox to the logs of other partitions. Returns false if some of them could not be delivered.
///
/// # Errors
/// Redis failed, or a log rejects an entry. Undelivered entries stay in the outbox.
pub async fn forward_outbox(
    store: &Store,
    log: &Streams,
    partition: Partition,
) -> Result<bool, StoreError> {
    outbox::forward(store, log, partition, &outbox::UnavailableNodes::default()).await
}

/// Joins the consumer group (of countd: its members are in Redis), publishes the assigned partitions, and runs the workers until `stop` turns true. Each worker then flushes what it has read.
/// `counted` gets the entities of the events that they count. `topic` is read and published to, if the log is in Kafka.
pub async fn run(
    config: Arc<Config>,
    store: Store,
    (health, counted): (Health, HotEntities),
    assignment: watch::Sender<Arc<Vec<Partition>>>,
    topic: Option<Topic>,
    mut stop: watch::Receiver<bool>,
) {
    let settings = &config.consumer;
    let topic_partitions = topic.as_ref().map(|topic| topic.identity().partitions);
    let catalog = Catalog::new(Arc::clone(&config), store.clone());
    let member = GroupMember::new(
        store.clone(),
        Duration::from_millis(settings.session_timeout_ms),
        topic_partitions,
    );
    tracing::info!(
        consumer = member.name(),
        workers = settings.workers,
        "consumer started"
    );
    let assigned = assignment.subscribe();
    let mut tasks = JoinSet::new();
    tasks.spawn(compaction::run(
        store.clone(),
        Arc::clone(&config),
        assigned.clone(),
        stop.clone(),
    ));
    if let Some(dir) = config.log.archive.dir() {
        let archiver = Archiver::new(
            store.clone(),
            Arc::clone(&config),
            health.clone(),
            dir.to_owned(),
        );
        tasks.spawn(archiver.run(assigned.clone(), stop.clone()));
    }
    tasks.spawn(days_maintenance::run(
        store.clone(),
        Arc::clone(&config),
        assigned.clone(),
        stop.clone(),
    ));
    tasks.spawn(ranks_maintenance::run(
        store.clone(),
        Arc::clone(&config),
        assigned.clone(),
        stop.clone(),
    ));
    tasks.spawn(change_streams::bound_assigned(
        Arc::clone(&config),
        store.clone(),
        assigned.clone(),
        stop.clone(),
    ));
    let topic = match topic.map(|topic| WatchedTopic::start(&topic)).transpose() {
        Ok(topic) => topic,
        // The same settings were accepted before.
        Err(error) => {
            tracing::error!(%error, "the topic cannot be read");
            health.set_consumer_problem(Some(error.to_string()));
            None
        }
    };
    let shared = Shared {
        health: health.clone(),
        counted,
        hot: HotList::default(),
        topic: topic.clone(),
    };
    if let Some(topic) = &topic {
        let watched = (topic.topic().clone(), topic.watermarks().clone());
        match Publisher::new(store.clone(), &config, watched) {
            Ok(publisher) => drop(tasks.spawn(publisher.run(assigned.clone(), stop.clone()))),
            Err(error) => tracing::error!(%error, "streams are not copied to the topic"),
        }
        tasks.spawn(topic.clone().report(
            store.clone(),
            health.clone(),
            assigned.clone(),
            stop.clone(),
        ));
    }
    if config.hot.enabled && config.hot.max_batch_age_ms < settings.max_batch_age_ms {
        let follow = shared
            .hot
            .clone()
            .follow(config.hot, store.clone(), stop.clone());
        tasks.spawn(follow);
    }
    let (mut workers, mut reports_lag) = (0, false);
    lag::set_gauges(None, None);
    loop {
        // A cluster can gain nodes at run time.
        while workers < store.node_map().node_count() * usize::from(settings.workers) {
            let worker = Worker::new(
                store.clone(),
                catalog.clone(),
                shared.clone(),
                workers,
                assigned.clone(),
            );
            tasks.spawn(worker.run(stop.clone()));
            workers += 1;
        }
        match member.heartbeat().await {
            Ok(partitions) => {
                health.set_consumer_problem(None);
                health.retain(|partition| partitions.contains(&partition));
                assignment.send_if_modified(|current| {
                    let is_rebalanced = **current != partitions;
                    if is_rebalanced {
                        tracing::info!(partitions = partitions.len(), "partitions assigned");
                        *current = Arc::new(partitions.clone());
                    }
                    is_rebalanced
                });
                // The lag is unknown until the first assignment.
                if !reports_lag {
                    tasks.spawn(lag::report(
                        store.clone(),
                        (health.clone(), topic.clone()),
                        Streams::new(store.clone(), &config),
                        assigned.clone(),
                        member.heartbeat_interval(),
                        stop.clone(),
                    ));
                    reports_lag = true;
                }
            }
            // The assignment stays: a partition with two owners is still committed once.
            Err(error) => {
                tracing::warn!(%error, "heartbeat failed");
                let is_transient = matches!(error, StoreError::Unavailable(_));
                health.set_consumer_problem((!is_transient).then(|| error.to_string()));
            }
        }
        tokio::select! {
            () = tokio::time::sleep(member.heartbeat_interval()) => {}
            _ = stop.wait_for(|stop| *stop) => break,
        }
    }
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a consumer task panicked");
        }
    }
    if let Err(error) = member.leave().await {
        tracing::warn!(%error, "cannot leave the consumer group; its heartbeat will expire");
    }
    tracing::info!("consumer stopped");
}
