//! What is appended, in as many calls as it takes.

use super::EntryKind;
use crate::domain::keys::Partition;
use std::collections::BTreeMap;

/// A call has about so many bytes: it is in memory several times until it is sent.
const BYTES_AT_ONCE: usize = 512 * 1024;

/// Entries for a log, in order.
pub(super) type PartitionPart<'a> = (Partition, &'a [(EntryKind, Vec<u8>)]);

/// What each of some calls appends: of so many logs at most, and not many bytes.
pub(super) fn chunks(
    entries: &BTreeMap<Partition, Vec<(EntryKind, Vec<u8>)>>,
    logs: usize,
) -> Vec<Vec<PartitionPart<'_>>> {
    let mut calls = Vec::new();
    let (mut call, mut bytes) = (Vec::new(), 0);
    for (partition, entries) in entries {
        let mut from = 0;
        for (at, (_, payload)) in entries.iter().enumerate() {
            bytes += payload.len();
            if bytes >= BYTES_AT_ONCE {
                call.push((*partition, &entries[from..=at]));
                calls.push(std::mem::take(&mut call));
                (from, bytes) = (at + 1, 0);
            }
        }
        if from < entries.len() {
            call.push((*partition, &entries[from..]));
        }
        if call.len() == logs {
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
    fn entries_are_appended_in_order_and_a_few_at_a_time() {
        let lengths = [
            (1, vec![10, BYTES_AT_ONCE, 10]),
            (2, vec![10]),
            (3, vec![]),
            (5, vec![7; 3]),
        ];
        let entries = |lengths: &Vec<usize>| -> Vec<(EntryKind, Vec<u8>)> {
            let entry = |length: &usize| (EntryKind::Event, vec![b'x'; *length]);
            lengths.iter().map(entry).collect()
        };
        let all = lengths
            .iter()
            .map(|(partition, some)| (*partition, entries(some)));
        let all: BTreeMap<Partition, _> = all.collect();
        let found: Vec<Vec<(Partition, Vec<usize>)>> = chunks(&all, 2)
            .into_iter()
            .map(|call| {
                let part = |(partition, entries): PartitionPart<'_>| {
                    let lengths = entries.iter().map(|(_, payload)| payload.len());
                    (partition, lengths.collect())
                };
                call.into_iter().map(part).collect()
            })
            .collect();
        let expected = [
            vec![(1, vec![10, BYTES_AT_ONCE])],
            vec![(1, vec![10]), (2, vec![10])],
            vec![(5, vec![7; 3])],
        ];
        assert_eq!(found, expected);
    }
}
