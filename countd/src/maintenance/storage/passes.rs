//! Passes over the keys of all nodes, repeated until one finds nothing to change.

use super::error::MigrationError;
use super::lease::Lease;
use super::progress::{Damage, MAX_DAMAGED};
use super::retry::{RETRIES, RETRY_DELAY};
use super::slots::slot_views;
use crate::redis::store::Store;
use redis::aio::ConnectionManager;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &["SCAN 0 COUNT 1", "SCAN 0 MATCH x COUNT 1"];

/// The number of keys that a step of `SCAN` looks at.
pub(super) const SCAN_COUNT: usize = 1_000;

/// What a pass has found.
#[derive(Debug, Default)]
pub(super) struct PassResult {
    /// The number of keys and members that had to be changed, with the damaged ones.
    pub found: u64,
    /// The damaged keys, up to [`MAX_DAMAGED`].
    pub damaged: Vec<Damage>,
    /// The number of damaged ones.
    pub damaged_count: u64,
}

impl PassResult {
    pub fn add_damage(&mut self, key: &str, reason: &'static str) {
        self.damaged_count += 1;
        if self.damaged.len() < MAX_DAMAGED {
            let key = key.to_owned();
            self.damaged.push(Damage { key, reason });
        }
    }
}

/// A pass over the keys of all nodes.
pub(super) trait Pass {
    /// Scans all nodes once. Returns `None` if it may have missed keys, because slots of the cluster moved.
    ///
    /// # Errors
    /// The lock was lost, or Redis failed.
    async fn run(&mut self) -> Result<Option<PassResult>, MigrationError>;

    /// Shows what was done so far, with the current step.
    fn show(&self, step: &str);
}

/// Repeats passes until one finds nothing to change but damaged keys. `passes` counts them.
///
/// # Errors
/// Keys are damaged and not skipped, the lock was lost, or Redis failed.
pub(super) async fn pass_until_clean(
    pass: &mut impl Pass,
    lease: &Lease,
    skip_damaged: bool,
    passes: &mut u64,
) -> Result<PassResult, MigrationError> {
    let mut failures = 0;
    loop {
        lease.check()?;
        let result = match pass.run().await {
            Ok(result) => result,
            Err(error) if error.is_transient() && failures < RETRIES => {
                failures += 1;
                tracing::warn!(%error, "a pass over the keys failed; will retry");
                tokio::time::sleep(RETRY_DELAY).await;
                continue;
            }
            Err(error) => return Err(error),
        };
        failures = 0;
        *passes += 1;
        let Some(result) = result else {
            pass.show("slots of the cluster are moving; passing again");
            tokio::time::sleep(RETRY_DELAY).await;
            continue;
        };
        if result.found > result.damaged_count {
            continue;
        }
        if result.damaged_count == 0 || skip_damaged {
            return Ok(result);
        }
        for Damage { key, reason } in &result.damaged {
            tracing::warn!(key, reason, "damaged key");
        }
        return Err(MigrationError::Damaged(result.damaged_count));
    }
}

/// Scans the keys of all nodes, or the keys that match a pattern. Returns whether the scan was complete: no slot moved during it.
///
/// # Errors
/// The lock was lost, Redis failed, or `visit` failed with the keys of a step.
pub(super) async fn scan_nodes(
    store: &Store,
    lease: &Lease,
    pattern: Option<&str>,
    mut visit: impl AsyncFnMut(Vec<String>) -> Result<(), MigrationError>,
) -> Result<bool, MigrationError> {
    let nodes = store.node_map();
    let mut servers = store.servers()?;
    let before = slot_views(store, &mut servers).await?;
    for server in &mut servers {
        let mut cursor = 0;
        loop {
            lease.check()?;
            let (next, found) = scan_step(server, cursor, pattern).await?;
            visit(found).await?;
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
    }
    let after = slot_views(store, &mut servers).await?;
    Ok(before.is_some() && before == after && nodes.is_same(&store.node_map()))
}

/// One step of `SCAN`: the keys in valid UTF-8, and the next cursor.
async fn scan_step(
    server: &mut ConnectionManager,
    cursor: u64,
    pattern: Option<&str>,
) -> Result<(u64, Vec<String>), MigrationError> {
    let mut scan = redis::cmd("SCAN");
    scan.arg(cursor);
    if let Some(pattern) = pattern {
        scan.arg("MATCH").arg(pattern);
    }
    scan.arg("COUNT").arg(SCAN_COUNT);
    let (next, found): (u64, Vec<Vec<u8>>) = scan.query_async(server).await?;
    let keys = found
        .into_iter()
        .filter_map(|key| String::from_utf8(key).ok());
    Ok((next, keys.collect()))
}
