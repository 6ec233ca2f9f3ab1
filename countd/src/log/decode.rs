//! Decodes entries in replies of scripts.

use super::entry::{EntryKind, EntryStrings, LogEntry};
use super::offset::offset;
use crate::domain::error::StoreError;
use redis::Value;

pub(super) fn unexpected(what: &str) -> StoreError {
    StoreError::Unexpected(what.to_owned())
}

/// Decodes a list of entries up to the first with a foreign ID. Also returns whether there is one.
pub(super) fn entries(list: Value) -> Result<(Vec<LogEntry>, bool), StoreError> {
    let Value::Array(items) = list else {
        return Err(unexpected("not a list of entries"));
    };
    let mut entries = Vec::with_capacity(items.len());
    for item in items {
        match entry(item)? {
            Some(entry) => entries.push(entry),
            None => return Ok((entries, true)),
        }
    }
    Ok((entries, false))
}

/// Decodes an entry: its ID, its first field and value (of a group, all of them), and its size. `None` if its ID is foreign.
fn entry(item: Value) -> Result<Option<LogEntry>, StoreError> {
    let Value::Array(parts) = item else {
        return Err(unexpected("not an entry"));
    };
    let mut parts = parts.into_iter();
    let offset = match parts.next() {
        Some(Value::BulkString(id)) => offset(&id),
        _ => return Err(unexpected("an entry without an ID")),
    };
    let strings = match parts.next() {
        Some(Value::Array(strings)) => strings,
        _ => Vec::new(),
    };
    let size = match parts.next() {
        Some(Value::Int(size)) => usize::try_from(size).unwrap_or(0),
        _ => 0,
    };
    let count = strings.len();
    let mut strings = strings.into_iter().map(|string| match string {
        Value::BulkString(bytes) => bytes,
        _ => Vec::new(),
    });
    let [field, payload, name, value] = [(); 4].map(|()| strings.next().unwrap_or_default());
    let is_whole = field.len() + payload.len() + name.len() + value.len() == size;
    Ok(offset.map(|offset| {
        let strings = EntryStrings {
            count,
            field: &field,
            payload,
            second: (&name, &value),
        };
        let entry = LogEntry::from_strings(offset, strings, size);
        LogEntry {
            is_whole: is_whole || entry.kind == EntryKind::Unknown,
            ..entry
        }
    }))
}
