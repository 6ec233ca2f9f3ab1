//! Entries that others appended with ids of their own.
//!
//! A log counts its entries: 0-1, 0-2, 0-3 ... Somebody who appends to it with another id (`XADD` with `*` makes one of the time)
//! makes an entry that has no offset, and behind which the log's own numbers do not fit any more: the server refuses them. Such
//! entries get the log's next numbers; then they are counted, or die, like all others.

use crate::keys::Partition;
use crate::scripts::script;
use crate::store::{Store, StoreError};
use redis::{RedisError, Script};
use std::collections::BTreeSet;
use std::sync::LazyLock;

static RENUMBER: LazyLock<Script> =
    LazyLock::new(|| Script::new(&script(include_str!("../lua/renumber.lua"))));

/// The greatest offset: scripts count in floating point.
const MAX_OFFSET: u64 = (1 << 53) - 1;

/// How many entries a script copies: it holds up everybody else while it runs.
const AT_ONCE: usize = 1_000;

/// The offset that an entry's id is; `None` if it is none of a log's own.
pub(super) fn offset(id: &[u8]) -> Option<u64> {
    let number = std::str::from_utf8(id).ok()?.strip_prefix("0-")?;
    number.parse().ok().filter(|offset| *offset <= MAX_OFFSET)
}

/// Whether a log refused an entry since it ends with an id that is none of its own.
pub fn is_closed(error: &RedisError) -> bool {
    // What servers say of ids that are too small, of the greatest one in the log, and of the greatest with these digits.
    let signs = [
        "smaller than the target stream top item",
        "exhausted the last possible ID",
        "Elements are too large to be stored",
    ];
    let words = error.to_string();
    signs.iter().any(|sign| words.contains(sign))
}

/// Gives entries of these logs whose ids are none of theirs the next ones. Returns how many.
///
/// # Errors
/// The store did not answer, or refused. What was done of it stays done, and the rest can be done later.
pub async fn renumber(store: &Store, partitions: &BTreeSet<Partition>) -> Result<u64, StoreError> {
    let keys = store.keys();
    let mut all = 0;
    for partition in partitions {
        let mut found = 0;
        loop {
            let mut call = RENUMBER.key(keys.log(*partition));
            call.key(keys.new_log(*partition));
            call.key(keys.position(*partition));
            call.arg(*partition).arg(AT_ONCE);
            let (renumbered, goes_on): (u64, bool) =
                call.invoke_async(&mut store.commands()).await?;
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
                "the log had entries with ids of others, not appended with 0-*: they got the log's next ids"
            );
        }
        all += found;
    }
    Ok(all)
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
