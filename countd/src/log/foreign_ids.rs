//! Renumbering of entries with foreign IDs.
//!
//! Another client may append an entry with an ID that is not the log's next ID, such as the time-based ID of `XADD` with `*`. The
//! server then refuses the log's own IDs, which are smaller, or the log runs out of offsets. Renumbering gives such entries the
//! log's next IDs. They are then counted or become dead letters, like all entries.

use super::offset::COPY_LIMIT;
use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use std::collections::BTreeSet;
use std::sync::LazyLock;

pub(super) static RENUMBER: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::writing(include_str!("../lua/log_renumber.lua")));

/// Gives the entries of a log that have foreign IDs the log's next IDs. Returns their number.
///
/// # Errors
/// The store is unavailable, or rejects the command. Renumbering can be continued later.
pub async fn renumber(store: &Store, partition: Partition) -> Result<u64, StoreError> {
    let keys = store.keys();
    let mut total = 0;
    loop {
        let mut call = RENUMBER.script.key(keys.log(partition));
        call.key(keys.new_log(partition));
        call.key(keys.position(partition));
        call.arg(partition).arg(COPY_LIMIT);
        let (renumbered, has_more): (u64, bool) = call.invoke_async(&mut store.commands()).await?;
        metrics::counter!("countd_events_renumbered_total").increment(renumbered);
        total += renumbered;
        if !has_more {
            break;
        }
    }
    if total > 0 {
        tracing::warn!(
            partition,
            count = total,
            "entries with foreign IDs, not appended with 0-*, were renumbered"
        );
    }
    Ok(total)
}

/// Renumbers several logs. Returns the logs that accept appends now.
pub async fn renumber_each(store: &Store, partitions: BTreeSet<Partition>) -> BTreeSet<Partition> {
    let mut open = BTreeSet::new();
    for partition in partitions {
        match renumber(store, partition).await {
            Ok(_) => drop(open.insert(partition)),
            Err(error) => tracing::warn!(partition, %error, "a log refuses entries"),
        }
    }
    open
}
