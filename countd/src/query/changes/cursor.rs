//! A place in a stream of changes, which notices entries that are missing.

/// The time by which the clocks of Redis servers may differ, in milliseconds. After a failover the new master may assign lower IDs than the old
/// one. A place given as a time therefore begins this much earlier.
pub(super) const SKEW_MS: u64 = 5_000;

/// The ID of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EntryId {
    /// Milliseconds since 1970.
    pub ms: u64,
    /// The number of the entry in its millisecond.
    pub seq: u64,
}

impl EntryId {
    /// Parses `{ms}-{seq}`.
    pub fn parse(text: &str) -> Option<EntryId> {
        let (ms, seq) = text.split_once('-')?;
        Some(EntryId {
            ms: ms.parse().ok()?,
            seq: seq.parse().ok()?,
        })
    }
}

/// A place in a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    /// The first time to read.
    from_ms: u64,
    /// The last entry that was read since the cursor was placed; 0-0 is the beginning of an empty stream.
    last: Option<EntryId>,
    /// The last entry that was read at all.
    known: EntryId,
}

impl Cursor {
    /// The place of the first entry at a time, less the skew of clocks.
    pub fn at_time(ms: u64) -> Cursor {
        Cursor {
            from_ms: ms.saturating_sub(SKEW_MS),
            last: None,
            known: EntryId::default(),
        }
    }

    /// The place after an entry; 0-0 is the beginning of an empty stream.
    pub fn after(last: EntryId) -> Cursor {
        Cursor {
            from_ms: 0,
            last: Some(last),
            known: last,
        }
    }

    /// Where `XRANGE` begins.
    pub fn start(&self) -> String {
        match self.last {
            Some(EntryId { ms, seq }) => format!("({ms}-{seq}"),
            None => format!("{}-0", self.from_ms),
        }
    }

    /// Moves past the next entry. Each entry has the ID of the entry before it. Returns false if entries are missing between the place and
    /// this entry.
    pub fn advance(&mut self, entry: EntryId, previous: EntryId) -> bool {
        let is_complete = match self.last {
            Some(last) => previous == last,
            None if entry <= self.known || previous == self.known && self.known.ms > 0 => true,
            // A first entry may begin a stream that replaces a deleted one.
            None => {
                previous.ms < self.from_ms && previous != EntryId::default() || self.from_ms == 0
            }
        };
        self.last = Some(entry);
        self.known = self.known.max(entry);
        is_complete
    }

    /// Whether a stream with this last ID has no entries after the place that were not read, be it that they were deleted. `None`: there
    /// is no stream, so it was perhaps deleted.
    pub fn has_reached(&self, end: Option<EntryId>) -> bool {
        match (end, self.last) {
            (None, _) => self.from_ms == 0,
            (Some(end), Some(last)) => end <= last,
            (Some(end), None) => end.ms < self.from_ms || end == EntryId::default(),
        }
    }

    /// Moves back by the skew of clocks: after a failover, later entries may have lower IDs.
    pub fn rewind(&mut self) {
        if self.known != EntryId::default() {
            self.from_ms = self.known.ms.saturating_sub(SKEW_MS);
            self.last = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(ms: u64) -> EntryId {
        EntryId { ms, seq: 0 }
    }

    #[test]
    fn ids_are_parsed() {
        assert_eq!(EntryId::parse("17-3"), Some(EntryId { ms: 17, seq: 3 }));
        for text in ["", "17", "17-", "-3", "a-3", "17-3-1"] {
            assert_eq!(EntryId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_entry_whose_predecessor_was_not_read_reveals_a_gap() {
        let mut cursor = Cursor::after(id(7));
        assert_eq!(cursor.start(), "(7-0");
        assert!(cursor.advance(id(8), id(7)));
        assert!(!cursor.advance(id(10), id(9)));
        assert!(cursor.advance(id(11), id(10)), "one gap is reported once");
        // The first entry of an empty stream, and of a stream that replaces another one.
        assert!(Cursor::after(id(0)).advance(id(8), id(0)));
        assert!(!Cursor::after(id(7)).advance(id(8), id(0)));
    }

    #[test]
    fn a_place_in_time_is_complete_if_the_entry_before_it_is_older() {
        let at = || Cursor::at_time(10_000);
        assert_eq!(at().start(), "5000-0");
        assert!(at().advance(id(6_000), id(4_999)));
        assert!(!at().advance(id(6_000), id(5_000)), "trimmed");
        assert!(!at().advance(id(6_000), id(0)), "perhaps deleted");
        assert!(Cursor::at_time(0).advance(id(6_000), id(0)));
    }

    #[test]
    fn a_last_id_after_the_last_entry_reveals_deleted_entries() {
        let mut cursor = Cursor::at_time(10_000);
        assert!(cursor.has_reached(Some(id(4_999))));
        assert!(cursor.has_reached(Some(id(0))), "nothing was announced");
        assert!(!cursor.has_reached(Some(id(5_000))));
        assert!(!cursor.has_reached(None), "perhaps deleted");
        assert!(Cursor::at_time(0).has_reached(None));
        assert!(cursor.advance(id(6_000), id(4_999)));
        // An entry that was appended after the last ID was read.
        assert!(cursor.has_reached(Some(id(5_999))));
        assert!(cursor.has_reached(Some(id(6_000))));
        assert!(!cursor.has_reached(Some(id(6_001))));
    }

    #[test]
    fn entries_that_are_read_again_are_no_gap() {
        let mut cursor = Cursor::after(id(0));
        assert!(cursor.advance(id(10_000), id(0)) && cursor.advance(id(20_000), id(10_000)));
        cursor.rewind();
        assert_eq!(cursor.start(), "15000-0");
        // After a failover that has lost the last entry.
        let mut other = cursor;
        assert!(!other.advance(id(20_001), id(19_000)));
        assert!(cursor.advance(id(20_000), id(10_000)));
        assert!(cursor.advance(id(20_001), id(20_000)));
        // The entry that was read is trimmed.
        cursor.rewind();
        assert!(cursor.advance(id(20_002), id(20_001)));
        let mut empty = Cursor::after(id(0));
        empty.rewind();
        assert!(empty.advance(id(5), id(0)));
    }
}
