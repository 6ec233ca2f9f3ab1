//! Waits until everything that was under way at a moment is counted.

use crate::consumer::forward_outbox;
use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use crate::log::Streams;
use crate::maintenance::drain::UncountedLogs;
use crate::redis::store::Store;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Commands that this file sends.
pub const PERMISSIONS: &[&str] = &["XREVRANGE {out} + - COUNT 1"];

/// The delay between two checks.
const DELAY: Duration = Duration::from_millis(100);
/// How long a wave may take. Then the next round waits again.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until the entries that all logs have now are counted, then until what outboxes have then is delivered, and until that is counted.
/// Returns why not, if it takes too long.
///
/// # Errors
/// Redis failed.
pub async fn wave(
    store: &Store,
    log: &Streams,
    stop: &watch::Receiver<bool>,
) -> Result<Option<String>, StoreError> {
    let deadline = Instant::now() + PATIENCE;
    if let Some(reason) = wait_for_logs(store, deadline, stop).await? {
        return Ok(Some(reason));
    }
    // On one server the outbox has only what could not be written.
    if wait_for_outboxes(store, log, deadline, stop).await? {
        return wait_for_logs(store, deadline, stop).await;
    }
    Ok(Some("outboxes are not forwarded".to_owned()))
}

async fn wait_for_logs(
    store: &Store,
    deadline: Instant,
    stop: &watch::Receiver<bool>,
) -> Result<Option<String>, StoreError> {
    let all: Vec<Partition> = (0..store.keys().partitions()).collect();
    let mut logs = UncountedLogs::of(&all);
    while !logs.are_counted(store).await? {
        if Instant::now() > deadline || *stop.borrow() {
            return Ok(Some("the logs are not counted".to_owned()));
        }
        tokio::time::sleep(DELAY).await;
    }
    Ok(None)
}

/// Waits until the current entries of all outboxes are in the logs of other partitions. Returns false if it takes too long.
async fn wait_for_outboxes(
    store: &Store,
    log: &Streams,
    deadline: Instant,
    stop: &watch::Receiver<bool>,
) -> Result<bool, StoreError> {
    let keys = store.keys();
    let outboxes: BTreeMap<String, Partition> = (0..keys.partitions())
        .map(|partition| (keys.outbox(partition), partition))
        .collect();
    for (outbox, partition) in outboxes {
        let mut cmd = redis::cmd("XREVRANGE");
        cmd.arg(&outbox).arg(&["+", "-", "COUNT", "1"]);
        type Entries = Vec<(String, Vec<Vec<u8>>)>;
        let last: Entries = cmd.query_async(&mut store.reads()).await?;
        if last.is_empty() {
            continue;
        }
        // The visits of entities do not tell the relay. Two that forward an outbox do no harm.
        while !forward_outbox(store, log, partition).await? {
            if Instant::now() > deadline || *stop.borrow() {
                return Ok(false);
            }
            tokio::time::sleep(DELAY).await;
        }
    }
    Ok(true)
}
