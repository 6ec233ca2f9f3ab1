//! Deletes what a rebuild has left.

use super::error::RebuildError;
use super::keys::{scan, table_names};
use super::state::{State, release_holds};
use crate::domain::config::Config;
use crate::redis::store::Store;

/// Commands that this file sends.
pub(super) const PERMISSIONS: &[&str] = &[
    "UNLINK {replay}",
    "UNLINK {replay_offsets}",
    "UNLINK {counters}",
    "UNLINK {tables}",
];

/// The number of keys that are deleted together.
const KEYS: usize = 500;

/// Deletes shadows, offsets, holds and the state of a rebuild that has ended. The state is last: until then, the deletion is repeated.
pub(super) async fn clean_up(store: &Store, config: &Config) -> Result<(), RebuildError> {
    if !State::has_ended(store).await? {
        return Ok(());
    }
    let keys = store.keys();
    let mut shadows = Vec::new();
    let tables = table_names(store, config).await?;
    for partition in 0..keys.partitions() {
        let tables = tables
            .iter()
            .map(|(schema, etype)| keys.shadow(&keys.table(schema, etype, partition)));
        shadows.extend(tables);
        let is_first = partition == 0;
        if keys.tagged() || is_first {
            shadows.push(keys.rebuild_offsets(partition));
        }
        if shadows.len() >= KEYS {
            unlink(store, &mut shadows).await?;
        }
    }
    unlink(store, &mut shadows).await?;
    for mut server in store.servers()? {
        // Objects, and tables of types that are not configured any more.
        let (mut cursor, pattern) = (0, keys.shadow("*"));
        loop {
            let (next, mut found) = scan(&mut server, cursor, &pattern).await?;
            unlink(store, &mut found).await?;
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
    }
    release_holds(store).await?;
    let mut cmd = redis::cmd("UNLINK");
    cmd.arg(keys.rebuild_state());
    Ok(cmd.exec_async(&mut store.commands()).await?)
}

/// Deletes keys.
async fn unlink(store: &Store, keys: &mut Vec<String>) -> Result<(), RebuildError> {
    if keys.is_empty() {
        return Ok(());
    }
    let mut pipe = redis::pipe();
    for key in keys.drain(..) {
        pipe.cmd("UNLINK").arg(key).ignore();
    }
    let () = pipe.query_async(&mut store.commands()).await?;
    Ok(())
}
