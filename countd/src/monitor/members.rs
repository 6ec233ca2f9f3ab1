//! The live consumers and processes.

use super::samples::{Family, Samples};
use crate::redis::processes::{live_consumers, live_processes};
use crate::redis::store::Store;
use std::collections::BTreeSet;

const CONSUMERS: &str = "countd_live_consumers";
const PROCESSES: &str = "countd_live_processes";

#[rustfmt::skip]
pub const FAMILIES: [Family; 2] = [
    Family::gauge(CONSUMERS, "Consumers of the log that send heartbeats, in all processes"),
    Family::gauge(PROCESSES, "Connections of processes that send heartbeats: one for each role of a process"),
];

/// Reads the heartbeats. Without samples if their node is unavailable.
pub async fn collect(store: &Store) -> Samples {
    let mut samples = Samples::default();
    let found = async {
        let consumers = live_consumers(store).await?;
        // A process that has just followed another epoch of the layout is listed twice.
        let processes = live_processes(store).await?;
        let processes: BTreeSet<String> = processes.into_iter().map(|process| process.id).collect();
        Ok::<_, redis::RedisError>((consumers.len(), processes.len()))
    };
    match found.await {
        Ok((consumers, processes)) => {
            samples.add(CONSUMERS, &[], consumers as f64);
            samples.add(PROCESSES, &[], processes as f64);
        }
        Err(error) => tracing::debug!(%error, "the live consumers cannot be collected"),
    }
    samples
}
