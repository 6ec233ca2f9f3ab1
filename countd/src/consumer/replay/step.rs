//! What a replay does with an entry of the archive.

use crate::consumer::decoder::{DecodedEntry, decode};
use crate::domain::config::USER;
use crate::domain::error::Problem;
use crate::domain::event::{Cause, NewAuthor};
use crate::domain::ids::{Entity, Id};
use crate::log::LogEntry;
use crate::log::archive::{Outcome, Record};

/// An entry with what a replay does with it.
pub(super) struct Step {
    pub(super) entry: LogEntry,
    pub(super) decoded: DecodedEntry,
    /// What happens before the entry is committed, alone.
    pub(super) before: Option<Before>,
}

/// A step that is run before its entry is committed. It may be run again.
pub(super) enum Before {
    /// The entity has this author, or none.
    SetAuthor(Entity, Option<Id>),
    /// The counters of the entity or the user were deleted.
    DeleteCounters(Entity),
}

/// What a replay does with an entry. `is_later` tells whether it was appended after the data was saved.
pub(super) fn step(record: Record, is_later: bool) -> Result<Step, Problem> {
    let Record {
        partition,
        outcome,
        entry,
    } = record;
    let mut decoded = match outcome {
        Outcome::Counted => decode(&entry),
        Outcome::Duplicate | Outcome::Dead => DecodedEntry::Skipped,
    };
    // What a check expects are the facts when it was appended, in data that this is not. Reconciliation compares again.
    if matches!(decoded, DecodedEntry::Check(_)) {
        decoded = DecodedEntry::Skipped;
    }
    let mut before = None;
    if is_later {
        decoded = match decoded {
            DecodedEntry::Event(mut event, id) => {
                event.counted = false;
                DecodedEntry::Event(event, id)
            }
            // Commits of the source forward it again.
            DecodedEntry::Derived(derived) if derived.source.is_some() => DecodedEntry::Skipped,
            // A correction, which this data does not have.
            DecodedEntry::Author(new) if new.unchanged => DecodedEntry::Skipped,
            DecodedEntry::Author(NewAuthor { entity, to, .. }) => {
                let offset = entry.offset;
                let unknown = || {
                    Problem::Unprocessable(format!(
                        "entry 0-{offset} of partition {partition} names no author: an older version wrote it; a snapshot that is younger than it is needed"
                    ))
                };
                let to = to.ok_or_else(unknown)?;
                let author = match to.is_empty() {
                    true => None,
                    false => Some(Id::new(to).map_err(|_| unknown())?),
                };
                before = Some(Before::SetAuthor(entity, author));
                DecodedEntry::Skipped
            }
            DecodedEntry::Journal(journal) if journal.why == Cause::Erase => {
                before = Some(Before::DeleteCounters(journal.entity()));
                DecodedEntry::Skipped
            }
            // They are settled at the end. Applied in the order of the archive, they could meet a counter that has less than it had,
            // because increments come from other partitions.
            DecodedEntry::Journal(journal) if journal.etype.as_str() == USER => {
                DecodedEntry::Skipped
            }
            DecodedEntry::Journal(journal) => DecodedEntry::JournalToApply(journal),
            // Facts are set before entries are committed, so they can be read again.
            other @ (DecodedEntry::Reread(_)
            | DecodedEntry::Facts(_)
            | DecodedEntry::Derived(_)
            | DecodedEntry::Check(_)
            | DecodedEntry::JournalToApply(_)
            | DecodedEntry::Skipped
            | DecodedEntry::Invalid(_)) => other,
        };
    }
    Ok(Step {
        entry,
        decoded,
        before,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::Name;
    use crate::log::EntryKind;

    fn decoded(kind: EntryKind, payload: &str, is_later: bool) -> DecodedEntry {
        let entry = LogEntry {
            offset: 9,
            kind,
            payload: payload.as_bytes().to_vec(),
            size: payload.len() + 1,
            is_whole: true,
        };
        let record = Record {
            partition: 0,
            outcome: Outcome::Counted,
            entry,
        };
        step(record, is_later).expect("a step").decoded
    }

    #[test]
    fn checks_are_skipped() {
        let check = r#"{"etype":"note","eid":"7","source":"check","checks":[["like",17]]}"#;
        for is_later in [false, true] {
            let decoded = decoded(EntryKind::Check, check, is_later);
            assert!(matches!(decoded, DecodedEntry::Skipped), "{is_later}");
        }
    }

    /// A correction appends an entry, and the commit of that entry credits the author. It names no author.
    #[test]
    fn corrections_are_skipped_in_older_data() {
        let entity = Entity {
            etype: Name::new("note").expect("a name"),
            eid: Id::new("7").expect("an ID"),
        };
        let unchanged = NewAuthor::unchanged(&entity).to_json();
        let later = decoded(EntryKind::Author, &unchanged, true);
        assert!(matches!(later, DecodedEntry::Skipped));
        let earlier = decoded(EntryKind::Author, &unchanged, false);
        assert!(matches!(earlier, DecodedEntry::Author(_)));
    }
}
