//! Reads the audit of corrections, the newest entries first.

use crate::domain::error::StoreError;
use crate::domain::ids::{Id, Name};
use crate::redis::permissions::Permissions;
use crate::redis::store::Store;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Commands that this file sends.
const PERMISSIONS: &[&str] = &["XREVRANGE {audit} + - COUNT 1"];

/// The number of entries that are read from a stream at once.
const CHUNK: usize = 200;
/// The number of streams that are read at once, which bounds the memory of the replies.
const STREAMS: usize = 64;
/// The number of entries that a page reads at most, so that a filter without matches ends. The next page continues there.
const MAX_READ: usize = 20_000;

/// The ID of an entry. The streams of a cluster may have equal ones.
type EntryId = (u64, u64);

/// The fields of an entry.
type Fields = BTreeMap<String, String>;

/// An entry as Redis replies it: its ID and its fields.
type RawEntry = (String, BTreeMap<String, Vec<u8>>);

/// An entry of the audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    id: EntryId,
    fields: Fields,
}

impl AuditEntry {
    /// When the counter was corrected, in milliseconds since 1970.
    pub fn ms(&self) -> u64 {
        self.id.0
    }

    /// A field; empty if the entry does not have it.
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// The fields except these, with their names.
    pub fn fields_except<'a>(
        &'a self,
        names: &'a [&str],
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        let fields = self.fields.iter();
        fields
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .filter(|(name, _)| !names.contains(name))
    }
}

/// Which entries are listed: those with all of these values.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// The entity type; `user` for counters of users.
    pub etype: Option<Name>,
    /// The ID of the entity or the user.
    pub eid: Option<Id>,
    /// The metric, or the counter of a user.
    pub metric: Option<Name>,
    /// What found the difference, such as `reconcile`.
    pub source: Option<Name>,
}

impl AuditFilter {
    fn matches(&self, fields: &Fields) -> bool {
        let has = |name: &str, value: Option<&str>| {
            value.is_none_or(|value| fields.get(name).is_some_and(|found| found == value))
        };
        has("etype", self.etype.as_ref().map(Name::as_str))
            && has("eid", self.eid.as_ref().map(Id::as_str))
            && has("metric", self.metric.as_ref().map(Name::as_str))
            && has("source", self.source.as_ref().map(Name::as_str))
    }
}

/// Where a page ended: the ID of the last entry that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditCursor(EntryId);

impl AuditCursor {
    /// Parses a cursor.
    pub fn parse(text: &str) -> Option<AuditCursor> {
        parse_id(text).map(AuditCursor)
    }
}

impl std::fmt::Display for AuditCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.0.0, self.0.1)
    }
}

/// A page of entries, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditPage {
    /// The entries.
    pub entries: Vec<AuditEntry>,
    /// Where the next page begins; `None` at the end of the audit.
    pub next: Option<AuditCursor>,
}

/// The permissions that reading the audit requires.
pub fn required_permissions() -> Permissions {
    Permissions::of_commands(PERMISSIONS)
}

/// Reads a page with about `limit` entries that match a filter. Reads at most about 20,000 entries, so a page may have fewer entries than
/// there are. In a cluster it reads all streams, in turns of 64.
///
/// # Errors
/// The store is unavailable.
pub async fn page(
    store: &Store,
    filter: &AuditFilter,
    cursor: Option<AuditCursor>,
    limit: usize,
) -> Result<AuditPage, StoreError> {
    let streams = store.keys().all_audits();
    let mut before = cursor.map(|AuditCursor(id)| id);
    let mut page = AuditPage::default();
    let mut read = 0;
    loop {
        let chunk = read_chunk(store, &streams, before).await?;
        read += chunk.read;
        let matching = chunk.entries.into_iter();
        let matching = matching.filter(|entry| filter.matches(&entry.fields));
        for entry in matching {
            let is_full = page.entries.len() >= limit;
            let last = page.entries.last().map(|last| last.id);
            // Entries with equal IDs are not divided, because the cursor could not tell them apart.
            if let Some(last) = last.filter(|last| is_full && *last != entry.id) {
                page.next = Some(AuditCursor(last));
                return Ok(page);
            }
            page.entries.push(entry);
        }
        let Some(horizon) = chunk.horizon else {
            return Ok(page);
        };
        if read >= MAX_READ || page.entries.len() >= limit {
            page.next = Some(AuditCursor(horizon));
            return Ok(page);
        }
        before = Some(horizon);
    }
}

/// Entries of all streams.
struct Chunk {
    /// The entries from the horizon on, the newest first.
    entries: Vec<AuditEntry>,
    /// The ID before which there may be further entries; `None` if there are none.
    horizon: Option<EntryId>,
    /// The number of entries that were read.
    read: usize,
}

/// Reads the newest entries of each stream with IDs less than `before`.
async fn read_chunk(
    store: &Store,
    streams: &[String],
    before: Option<EntryId>,
) -> Result<Chunk, StoreError> {
    let from = before.map_or("+".to_owned(), |(ms, number)| format!("({ms}-{number}"));
    let mut chunk = Chunk {
        entries: Vec::new(),
        horizon: None,
        read: 0,
    };
    for group in streams.chunks(STREAMS) {
        let mut pipeline = redis::pipe();
        for stream in group {
            let cmd = pipeline.cmd("XREVRANGE").arg(stream);
            cmd.arg(&[&from, "-", "COUNT"]).arg(CHUNK);
        }
        let replies: Vec<Vec<RawEntry>> = pipeline.query_async(&mut store.reads()).await?;
        for reply in replies {
            chunk.read += reply.len();
            let is_whole = reply.len() < CHUNK;
            let entries: Vec<AuditEntry> = reply.into_iter().filter_map(decode).collect();
            if let Some(oldest) = entries.last().filter(|_| !is_whole) {
                chunk.horizon = chunk.horizon.max(Some(oldest.id));
            }
            chunk.entries.extend(entries);
        }
        let horizon = chunk.horizon;
        chunk.entries.retain(|entry| Some(entry.id) >= horizon);
    }
    chunk.entries.sort_by_key(|entry| Reverse(entry.id));
    Ok(chunk)
}

fn decode((id, fields): RawEntry) -> Option<AuditEntry> {
    let fields = fields.into_iter();
    let fields = fields.map(|(name, value)| (name, String::from_utf8_lossy(&value).into_owned()));
    Some(AuditEntry {
        id: parse_id(&id)?,
        fields: fields.collect(),
    })
}

fn parse_id(text: &str) -> Option<EntryId> {
    let (ms, number) = text.split_once('-')?;
    Some((ms.parse().ok()?, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_matches_entries_with_all_of_its_values() {
        let fields: Fields = [("etype", "note"), ("eid", "7"), ("metric", "like")]
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let name = |text: &str| Some(Name::new(text).expect("a name"));
        let of_note = AuditFilter {
            etype: name("note"),
            ..AuditFilter::default()
        };
        assert!(AuditFilter::default().matches(&fields) && of_note.matches(&fields));
        let others = [
            AuditFilter {
                metric: name("fav"),
                ..of_note.clone()
            },
            AuditFilter {
                eid: Id::new("8").ok(),
                ..of_note.clone()
            },
            AuditFilter {
                source: name("reconcile"),
                ..of_note
            },
        ];
        assert!(others.iter().all(|other| !other.matches(&fields)));
    }

    #[test]
    fn a_cursor_is_the_id_of_an_entry() {
        let cursor = AuditCursor::parse("17-3").expect("a cursor");
        assert_eq!(cursor.to_string(), "17-3");
        for invalid in ["", "17", "17-", "-3", "a-b", "17-3-1"] {
            assert!(AuditCursor::parse(invalid).is_none(), "{invalid}");
        }
    }
}
