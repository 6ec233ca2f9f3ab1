//! The records of a read, in memory that the next read uses again.
//!
//! A read has thousands of them. Memory of their own for each would be new for each read: its pages, which the kernel has to clear, took a
//! sixth of a consumer's time.

use super::record::BorrowedRecord;
use std::ops::Range;

/// The memory that is kept for the next read, in bytes. A single record can be larger.
const KEPT_BYTES: usize = 16 * 1024 * 1024;

/// The records of a read, in the order of each partition.
#[derive(Default)]
pub struct Records {
    /// Keys and values.
    bytes: Vec<u8>,
    places: Vec<Place>,
}

/// A record whose key and value are in common memory.
struct Place {
    topic_partition: u16,
    offset: u64,
    key: Option<Range<usize>>,
    value: Option<Range<usize>>,
    is_copy: bool,
}

impl Records {
    /// The number of records.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The number of bytes of all keys and values.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Copies a record. Values of copies of events are left out, because they are not counted.
    pub(super) fn push(&mut self, record: BorrowedRecord<'_>) {
        let value = record.value.filter(|_| !record.is_copy);
        let place = Place {
            topic_partition: record.topic_partition,
            offset: record.offset,
            key: record.key.map(|key| self.add(key)),
            value: value.map(|value| self.add(value)),
            is_copy: record.is_copy,
        };
        self.places.push(place);
    }

    fn add(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    /// The record at a place.
    pub fn get(&self, at: usize) -> Option<BorrowedRecord<'_>> {
        let place = self.places.get(at)?;
        let bytes = |range: &Option<Range<usize>>| self.bytes.get(range.clone()?);
        Some(BorrowedRecord {
            topic_partition: place.topic_partition,
            offset: place.offset,
            key: bytes(&place.key),
            value: bytes(&place.value),
            is_copy: place.is_copy,
        })
    }

    /// All records.
    pub fn iter(&self) -> impl Iterator<Item = BorrowedRecord<'_>> {
        (0..self.len()).filter_map(|at| self.get(at))
    }

    /// Removes all records, and keeps most of their memory.
    pub fn clear(&mut self) {
        self.places.clear();
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_those_that_were_copied_without_the_values_of_copies() {
        let record = |offset, key, value, is_copy| BorrowedRecord {
            topic_partition: 3,
            offset,
            key,
            value,
            is_copy,
        };
        let pushed = [
            record(1, Some(&b"note:7"[..]), Some(&b"{}"[..]), false),
            record(2, None, Some(&b""[..]), false),
            record(4, Some(&b""[..]), None, false),
            record(5, Some(&b"note:8"[..]), Some(&b"{}"[..]), true),
        ];
        let mut records = Records::default();
        for _ in 0..2 {
            pushed.into_iter().for_each(|record| records.push(record));
            let mut expected = pushed;
            expected[3].value = None;
            assert_eq!(records.iter().collect::<Vec<_>>(), expected);
            assert_eq!((records.len(), records.size()), (4, 14));
            assert_eq!(records.get(4), None);
            records.clear();
            assert!(records.is_empty());
            assert_eq!(records.size(), 0);
        }
    }
}
