//! Which entries of split entities a replay accepts: those of a split that the data has.

use crate::consumer::decoder::DecodedEntry;
use crate::domain::error::Problem;
use crate::domain::event::{Cause, Event};
use crate::domain::ids::Entity;
use crate::domain::keys::Partition;
use crate::domain::split::Shard;
use crate::redis::layout::StoredLayout;

/// Refuses an entry that is later than the snapshot and concerns a split that the data does not have: facts of its shards would be at keys
/// that no read uses.
///
/// # Errors
/// The snapshot is of before the split, or of before the merge.
pub(super) fn check(
    layout: &StoredLayout,
    (partition, offset): (Partition, u64),
    decoded: &DecodedEntry,
) -> Result<(), Problem> {
    let events: &[Event] = match decoded {
        DecodedEntry::Event(event, _) => std::slice::from_ref(event),
        DecodedEntry::Group(events) => events,
        _ => &[],
    };
    let is_unknown = |entity: &Entity| {
        let Some((eid, shard)) = Shard::parse(entity.eid.as_str()) else {
            return false;
        };
        let etype = entity.etype.clone();
        let state = layout.split_of(&Entity { etype, eid });
        state.is_none_or(|state| state.generation != shard.generation)
    };
    let refused = |entity: &Entity, what: &str| {
        let Entity { etype, eid } = entity;
        Err(Problem::Unprocessable(format!(
            "entry 0-{offset} of partition {partition} is of {etype}:{eid}, which was {what} after the snapshot was saved: use a younger one"
        )))
    };
    if let Some(event) = events.iter().find(|event| is_unknown(&event.entity)) {
        return refused(&event.entity, "split");
    }
    match decoded {
        DecodedEntry::JournalToApply(journal) if journal.why == Cause::Merge => {
            refused(&journal.entity(), "merged")
        }
        _ => Ok(()),
    }
}
