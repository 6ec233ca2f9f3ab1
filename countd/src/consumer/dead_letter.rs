//! Dead letters: entries that cannot be counted, with the reason.

use super::decoder::DecodedEntry;
use crate::domain::keys::Partition;
use crate::log::{EntryKind, LogEntry};

/// An entry, or a part of one, that cannot be counted.
#[derive(Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Why it cannot be counted.
    pub reason: String,
    /// What the entry holds.
    pub kind: EntryKind,
    /// The payload, which may be shortened: see [`preserve_payload`]. For a derived event, it has only the increments that were
    /// rejected.
    pub payload: Vec<u8>,
    /// The length of the payload before it was shortened.
    pub full_len: usize,
    /// The partition of its log.
    pub partition: Partition,
    /// Its offset in that log.
    pub offset: u64,
}

/// Returns the payload to keep of an entry, and its full length.
///
/// An event can be retried once the cause is repaired, so all known fields of a long event are kept. Any other payload that is
/// longer than `max_len` is truncated.
pub fn preserve_payload(
    entry: LogEntry,
    decoded: &DecodedEntry,
    max_len: usize,
) -> (Vec<u8>, usize) {
    let LogEntry {
        mut payload, size, ..
    } = entry;
    if entry.is_whole && payload.len() <= max_len {
        let full_len = payload.len();
        return (payload, full_len);
    }
    if let DecodedEntry::Event(event, envelope_id) = decoded {
        let known_fields = match envelope_id {
            Some(id) => event.to_envelope(id, event.metric.as_str()),
            None => event.to_json().into_bytes(),
        };
        let full_len = known_fields.len();
        return (known_fields, full_len);
    }
    payload.truncate(max_len);
    payload.shrink_to_fit();
    let full_len = size.max(payload.len());
    (payload, full_len)
}
