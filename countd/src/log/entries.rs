//! Entries in the replies of scripts.

use super::renumber::offset;
use super::{EntryKind, LogEntry};
use crate::domain::error::StoreError;
use redis::Value;

pub(super) fn unexpected(what: &str) -> StoreError {
    StoreError::Unexpected(what.to_owned())
}

/// A list of entries, as the scripts reply them, up to the first whose id is no offset; and whether there is one.
pub(super) fn entries(list: Value) -> Result<(Vec<LogEntry>, bool), StoreError> {
    let Value::Array(items) = list else {
        return Err(unexpected("no entries"));
    };
    let mut found = Vec::with_capacity(items.len());
    for item in items {
        match entry(item)? {
            Some(entry) => found.push(entry),
            None => return Ok((found, true)),
        }
    }
    Ok((found, false))
}

/// An entry; `None` if its id is no offset.
fn entry(item: Value) -> Result<Option<LogEntry>, StoreError> {
    let Value::Array(parts) = item else {
        return Err(unexpected("no entry"));
    };
    let mut parts = parts.into_iter();
    let offset = match parts.next() {
        Some(Value::BulkString(id)) => offset(&id),
        _ => return Err(unexpected("an entry without an id")),
    };
    let fields = match parts.next() {
        Some(Value::Array(fields)) => fields,
        _ => Vec::new(),
    };
    let size = match parts.next() {
        Some(Value::Int(size)) => usize::try_from(size).unwrap_or(0),
        _ => 0,
    };
    let mut words = fields.into_iter().map(|word| match word {
        Value::BulkString(bytes) => bytes,
        _ => Vec::new(),
    });
    let (kind, payload) = match (words.next(), words.next(), words.next()) {
        (Some(field), Some(payload), None) => (EntryKind::of(&field), payload),
        (_, payload, _) => (EntryKind::Unknown, payload.unwrap_or_default()),
    };
    // The fields of all kinds have one letter.
    let is_whole = kind == EntryKind::Unknown || payload.len() + 1 == size;
    Ok(offset.map(|offset| LogEntry {
        offset,
        kind,
        payload,
        size,
        is_whole,
    }))
}
