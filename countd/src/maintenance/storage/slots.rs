//! The slots of the nodes of a cluster: a scan that was interrupted by moving slots may have missed keys.

use super::error::MigrationError;
use crate::domain::keys::Partition;
use crate::redis::store::Store;
use redis::aio::ConnectionManager;
use std::collections::BTreeMap;

/// Commands that this file sends to a cluster.
pub(super) const CLUSTER_PERMISSIONS: &[&str] = &["CLUSTER NODES"];

/// The slots of all masters, as each master says. `None` if slots are being moved, or if masters are missing. Empty on one server.
pub(super) async fn slot_views(
    store: &Store,
    servers: &mut [ConnectionManager],
) -> Result<Option<BTreeMap<String, String>>, MigrationError> {
    let (mut all, mut expected) = (BTreeMap::new(), None);
    if !store.keys().tagged() {
        return Ok(Some(all));
    }
    for server in servers {
        let nodes: String = redis::cmd("CLUSTER")
            .arg("NODES")
            .query_async(server)
            .await?;
        let mut masters = 0;
        for line in nodes.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let [id, _, flags, _, _, _, _, _, slots @ ..] = fields.as_slice() else {
                continue;
            };
            masters += u32::from(flags.contains("master") && !slots.is_empty());
            if flags.contains("myself") && !slots.is_empty() {
                all.insert((*id).to_owned(), slots.join(" "));
            }
        }
        if *expected.get_or_insert(masters) != masters {
            return Ok(None);
        }
    }
    let is_moving = all.values().any(|slots| slots.contains('['));
    let is_complete = expected == Some(all.len() as u32);
    Ok((is_complete && !is_moving).then_some(all))
}

/// A partition of each slot.
pub(super) fn slots(store: &Store) -> std::ops::Range<Partition> {
    let keys = store.keys();
    0..if keys.tagged() { keys.partitions() } else { 1 }
}
