//! Entries with foreign IDs.
//!
//! A log numbers its entries: 0-1, 0-2, 0-3 ... An entry that another client appends under another ID (`XADD` with `*` makes one of
//! the time) has no offset, and the server refuses the log's own numbers behind it. One far beyond the log's last offset
//! (0-9007199254740991) leaves no offsets for what is appended behind it. Such entries get the log's next numbers; then they are
//! counted, or become dead letters, like all others.

use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use crate::redis::script::script;
use crate::redis::store::Store;
use redis::Script;
use std::collections::BTreeSet;
use std::sync::LazyLock;

static RENUMBER: LazyLock<Script> =
    LazyLock::new(|| Script::new(&script(include_str!("../lua/renumber.lua"))));

/// The greatest offset: scripts count in floating point.
pub(crate) const MAX_OFFSET: u64 = (1 << 53) - 1;

/// The greatest distance between two offsets of a log that follow on each other. Beyond it the second one is foreign: no log has
/// lost so many entries in between, and offsets cannot be used up by a few entries of another client.
pub(super) const MAX_GAP: u64 = 1 << 32;

/// The last ID of a log that takes no more entries until `countd log reset`: no `0-*` fits behind it.
pub(super) const CLOSED: (u64, u64) = (u64::MAX, 13_834_321_097_531_834_207);

/// How many entries a script copies: it holds up everybody else while it runs.
pub(super) const AT_ONCE: usize = 1_000;

/// The offset that an entry's id is; `None` if it is foreign.
pub(super) fn offset(id: &[u8]) -> Option<u64> {
    let number = std::str::from_utf8(id).ok()?.strip_prefix("0-")?;
    number.parse().ok().filter(|offset| *offset <= MAX_OFFSET)
}

/// Gives entries of a log with foreign ids the next ones. Returns how many.
///
/// # Errors
/// The store did not answer, or refused. What was done of it stays done, and the rest can be done later.
pub async fn renumber(store: &Store, partition: Partition) -> Result<u64, StoreError> {
    let keys = store.keys();
    let mut found = 0;
    loop {
        let mut call = RENUMBER.key(keys.log(partition));
        call.key(keys.new_log(partition));
        call.key(keys.position(partition));
        call.arg(partition).arg(AT_ONCE);
        let (renumbered, goes_on): (u64, bool) = call.invoke_async(&mut store.commands()).await?;
        metrics::counter!("countd_events_renumbered_total").increment(renumbered);
        found += renumbered;
        if !goes_on {
            break;
        }
    }
    if found > 0 {
        tracing::warn!(
            partition,
            count = found,
            "the log had entries with foreign ids, not appended with 0-*: they got the log's next ids"
        );
    }
    Ok(found)
}

/// Renumbers some logs, each for itself. Returns those that can be appended to now.
pub async fn renumber_each(store: &Store, partitions: BTreeSet<Partition>) -> BTreeSet<Partition> {
    let mut open = BTreeSet::new();
    for partition in partitions {
        match renumber(store, partition).await {
            Ok(_) => drop(open.insert(partition)),
            Err(why) => tracing::warn!(partition, error = %why, "a log refuses entries"),
        }
    }
    open
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_told_from_ids_of_others() {
        assert_eq!(offset(b"0-1"), Some(1));
        assert_eq!(offset(b"0-9007199254740991"), Some(MAX_OFFSET));
        for other in [
            &b"0-9007199254740992"[..],
            b"0-18446744073709551615",
            b"1-1",
            b"1700000000000-0",
            b"0",
            b"0-",
            b"0-x",
            b"\xff",
        ] {
            assert_eq!(offset(other), None, "{other:?}");
        }
    }
}
