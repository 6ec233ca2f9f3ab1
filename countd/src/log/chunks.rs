//! Splits appends into calls of limited size.

use super::entry::EntryKind;
use crate::domain::keys::Partition;
use std::collections::BTreeMap;

/// The approximate maximum size of a call. Several copies of it are in memory until it is sent.
const MAX_CALL_BYTES: usize = 512 * 1024;

/// Consecutive entries for a log.
pub(super) type AppendChunk<'a> = (Partition, &'a [(EntryKind, Vec<u8>)]);

/// Splits entries into calls, each for up to `max_logs` logs and of about [`MAX_CALL_BYTES`].
pub(super) fn chunks(
    entries: &BTreeMap<Partition, Vec<(EntryKind, Vec<u8>)>>,
    max_logs: usize,
) -> Vec<Vec<AppendChunk<'_>>> {
    let mut calls = Vec::new();
    let (mut call, mut bytes) = (Vec::new(), 0);
    for (partition, entries) in entries {
        let mut from = 0;
        for (at, (_, payload)) in entries.iter().enumerate() {
            bytes += payload.len();
            if bytes >= MAX_CALL_BYTES {
                call.push((*partition, &entries[from..=at]));
                calls.push(std::mem::take(&mut call));
                (from, bytes) = (at + 1, 0);
            }
        }
        if from < entries.len() {
            call.push((*partition, &entries[from..]));
        }
        if call.len() == max_logs {
            calls.push(std::mem::take(&mut call));
            bytes = 0;
        }
    }
    calls.extend((!call.is_empty()).then_some(call));
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_keep_the_order_and_are_limited_in_logs_and_bytes() {
        let lengths = [
            (1, vec![10, MAX_CALL_BYTES, 10]),
            (2, vec![10]),
            (3, vec![]),
            (5, vec![7; 3]),
        ];
        let entries = |lengths: &Vec<usize>| -> Vec<(EntryKind, Vec<u8>)> {
            let entry = |length: &usize| (EntryKind::Event, vec![b'x'; *length]);
            lengths.iter().map(entry).collect()
        };
        let logs = lengths
            .iter()
            .map(|(partition, lengths)| (*partition, entries(lengths)));
        let logs: BTreeMap<Partition, _> = logs.collect();
        let calls: Vec<Vec<(Partition, Vec<usize>)>> = chunks(&logs, 2)
            .into_iter()
            .map(|call| {
                let lengths = |(partition, entries): AppendChunk<'_>| {
                    let lengths = entries.iter().map(|(_, payload)| payload.len());
                    (partition, lengths.collect())
                };
                call.into_iter().map(lengths).collect()
            })
            .collect();
        let expected = [
            vec![(1, vec![10, MAX_CALL_BYTES])],
            vec![(1, vec![10]), (2, vec![10])],
            vec![(5, vec![7; 3])],
        ];
        assert_eq!(calls, expected);
    }
}
