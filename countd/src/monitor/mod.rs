//! The state of Redis, of the logs and of the processes, for the metrics of every process, whatever its role: an operator who scrapes any process
//! is told of a backlog, although nothing consumes.
//!
//! A process collects at an interval (`monitor.interval_seconds`), not at each scrape, so the load on Redis does not depend on the number of
//! scrapers. A collection is an `INFO` for each node, a script for each 16 partitions (in a cluster for each partition), two `ZRANGE`, and two commands for
//! each audit.
//!
//! The samples are not kept by the recorder of the other metrics: counters of Redis start again at 0 when it restarts, and nodes leave a cluster.

mod audit;
pub mod differences;
pub mod exposition;
mod info;
mod logs;
mod members;
mod migrations;
mod nodes;
mod samples;
mod topic;

pub use info::Info;
pub use nodes::{NodeReply, replies};

use crate::domain::config::MonitorConfig;
use crate::log;
use crate::log::kafka::Topic;
use crate::redis::permissions::Permissions;
use crate::redis::processes;
use crate::redis::store::Store;
use arc_swap::ArcSwap;
use futures_util::future::join4;
use samples::{Family, Samples};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch;
use topic::MonitoredTopic;

/// The names and descriptions of all metrics that are collected.
pub fn descriptions() -> impl Iterator<Item = (&'static str, &'static str)> {
    families().map(|family| (family.name, family.help))
}

/// All metrics, in the order of the exposition.
fn families() -> impl Iterator<Item = Family> {
    let of_nodes = nodes::families();
    let others = logs::FAMILIES.into_iter().chain(members::FAMILIES);
    let others = others.chain(migrations::FAMILIES).chain(audit::FAMILIES);
    let others = others.chain(topic::FAMILIES);
    others.chain(of_nodes)
}

/// The permissions to collect.
pub fn required_permissions() -> Permissions {
    log::lag_permissions()
        .and(Permissions::of_commands(nodes::PERMISSIONS))
        .and(Permissions::of_commands(audit::PERMISSIONS))
        .and(Permissions::of_commands(processes::CONSUMER_PERMISSIONS))
}

/// The latest samples of a process. Cheap to clone.
#[derive(Clone, Default)]
pub struct Monitor {
    is_started: Arc<AtomicBool>,
    /// In the text format of Prometheus; empty before the first collection.
    text: Arc<ArcSwap<String>>,
    /// The topic, with Kafka as the log.
    topic: Arc<OnceLock<Option<MonitoredTopic>>>,
}

impl Monitor {
    /// Collects until `stopping` turns true, in a task. Does nothing if it was called before, or if the settings switch it off. Must be called in
    /// a Tokio runtime.
    pub fn start(&self, settings: MonitorConfig, store: Store, stopping: watch::Receiver<bool>) {
        let Some(interval) = settings.interval() else {
            return;
        };
        if !self.is_started.swap(true, Ordering::Relaxed) {
            tokio::spawn(self.clone().run(interval, store, stopping));
        }
    }

    /// Collects the state of the topic, too, as soon as the process knows it. Does nothing if it was called before. Must be called in a Tokio
    /// runtime.
    pub fn watch_topic(&self, topic: &Topic) {
        self.topic.get_or_init(|| MonitoredTopic::watch(topic));
    }

    /// The latest samples, in the text format of Prometheus.
    pub fn text(&self) -> Arc<String> {
        self.text.load_full()
    }

    async fn run(self, interval: Duration, store: Store, mut stopping: watch::Receiver<bool>) {
        let collecting = async {
            loop {
                let mut samples = collect(&store).await;
                if let Some(Some(topic)) = self.topic.get() {
                    samples = samples.and(topic.collect(&store).await);
                }
                self.text.store(Arc::new(samples.render(families())));
                tokio::time::sleep(interval).await;
            }
        };
        tokio::select! {
            () = collecting => {}
            _ = stopping.wait_for(|stop| *stop) => {}
        }
    }
}

/// Collects all samples. What cannot be read has none.
async fn collect(store: &Store) -> Samples {
    let (nodes, logs, members, audit) = join4(
        nodes::collect(store),
        logs::collect(store),
        members::collect(store),
        audit::collect(store),
    )
    .await;
    let others = members.and(migrations::collect(store)).and(audit);
    logs.and(others).and(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_documented() {
        let page = include_str!("../../../docs/countd/monitoring.md");
        let mut names = BTreeSet::new();
        for (name, help) in descriptions() {
            assert!(names.insert(name), "{name} is described twice");
            assert!(!help.is_empty() && !help.contains('\n'), "{name}");
            assert!(
                page.contains(&format!("`{name}`")),
                "{name} is not on the page"
            );
        }
    }
}
