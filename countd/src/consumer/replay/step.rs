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

/// What a replay does with an entry. `saved` is the last offset that its log had when the data was saved.
pub(super) fn step(record: Record, saved: u64) -> Result<Step, Problem> {
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
    if entry.offset > saved {
        decoded = match decoded {
            DecodedEntry::Event(mut event, id) => {
                // A retry of an action that the data has.
                event.counted = event.retried.is_some_and(|first| first <= saved);
                DecodedEntry::Event(event, id)
            }
            DecodedEntry::Group(mut events) => {
                for event in &mut events {
                    event.counted = false;
                }
                DecodedEntry::Group(events)
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

    /// The offset of the entry.
    const OFFSET: u64 = 9;

    fn decoded(kind: EntryKind, payload: &str, saved: u64) -> DecodedEntry {
        let entry = LogEntry {
            offset: OFFSET,
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
        step(record, saved).expect("a step").decoded
    }

    #[test]
    fn checks_are_skipped() {
        let check = r#"{"etype":"note","eid":"7","source":"check","checks":[["like",17]]}"#;
        for saved in [OFFSET - 1, OFFSET] {
            let decoded = decoded(EntryKind::Check, check, saved);
            assert!(matches!(decoded, DecodedEntry::Skipped), "{saved}");
        }
    }

    /// Data that is older than an action gets it from the retry, since dead letters are skipped. Data that is younger has it.
    #[test]
    fn retried_events_change_the_counter_of_the_entity_once() {
        let event = |retried: &str| {
            format!(
                r#"{{"etype":"note","eid":"7","metric":"comment","delta":1,"uid":"1","ts":1,"counted":true{retried}}}"#
            )
        };
        let is_counted = |payload: &str, saved: u64| match decoded(EntryKind::Event, payload, saved)
        {
            DecodedEntry::Event(event, None) => event.counted,
            _ => panic!("not an event"),
        };
        let retried = event(r#","retried":5"#);
        assert!(!is_counted(&retried, 4));
        assert!(is_counted(&retried, 5));
        assert!(is_counted(&retried, OFFSET));
        assert!(!is_counted(&event(""), OFFSET - 1));
        assert!(is_counted(&event(""), OFFSET));
    }

    #[test]
    fn groups_change_the_counter_of_the_entity_in_older_data() {
        let group = r#"{"etype":"note","eid":"7","metric":"like","delta":1,"ts":1,"counted":true,"uids":["1","2"]}"#;
        for (saved, counted) in [(OFFSET, true), (OFFSET - 1, false)] {
            let DecodedEntry::Group(events) = decoded(EntryKind::Group, group, saved) else {
                panic!("not a group");
            };
            let found = events.iter().map(|event| event.counted);
            assert_eq!(found.collect::<Vec<_>>(), [counted; 2]);
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
        let later = decoded(EntryKind::Author, &unchanged, OFFSET - 1);
        assert!(matches!(later, DecodedEntry::Skipped));
        let earlier = decoded(EntryKind::Author, &unchanged, OFFSET);
        assert!(matches!(earlier, DecodedEntry::Author(_)));
    }
}
