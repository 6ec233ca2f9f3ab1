//! The form of a small set: a sorted array in one allocation.
//!
//! Layout: one byte of widths (high half: bytes of the base, low half: bytes of an offset), the smallest member as the
//! base, then the distance of each further member from it, ascending; all little-endian. Both widths are the smallest
//! that will do, so equal sets are equal bytes. Five ids that lie close together cost about 13 bytes, one id at most 9.
//! The empty set has no allocation.

use std::cmp::Ordering;
use std::ops::Range;

/// The largest number of members that a set keeps in this form.
pub(super) const LIMIT: usize = 128;

/// A sorted array of at most [`LIMIT`] members.
#[derive(Clone, PartialEq, Eq, Default)]
pub(super) struct Compact(Box<[u8]>);

/// What [`Compact::insert`] did.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inserted {
    /// The member is new and in.
    Added,
    /// It was in already.
    Present,
    /// It is new, but the array is full. Nothing changed.
    Full,
}

/// Bytes that hold `x`, at least one.
fn width_of(x: u64) -> usize {
    (64 - x.leading_zeros() as usize).div_ceil(8).max(1)
}

/// The little-endian integer in the `width` bytes at `at`, 1 to 8; 0 past the end.
fn read(bytes: &[u8], at: usize, width: usize) -> u64 {
    if let Some(eight) = bytes.get(at..).and_then(|tail| tail.first_chunk()) {
        return u64::from_le_bytes(*eight) & u64::MAX >> (64 - 8 * width);
    }
    let tail = bytes.get(at..at + width).unwrap_or_default();
    tail.iter()
        .rev()
        .fold(0, |x, &byte| x << 8 | u64::from(byte))
}

/// The decoded first bytes of a non-empty array, and the rest.
#[derive(Clone, Copy)]
struct View<'a> {
    base: u64,
    offsets: &'a [u8],
    /// Bytes of one offset.
    width: usize,
}

impl View<'_> {
    fn len(self) -> usize {
        // The division of 32 bits is the faster one, and there are at most 1,016 bytes.
        1 + (self.offsets.len() as u32 / self.width as u32) as usize
    }

    /// Member number `i`, which must be less than the length.
    fn at(self, i: usize) -> u64 {
        match i.checked_sub(1) {
            None => self.base,
            Some(i) => self.base + read(self.offsets, i * self.width, self.width),
        }
    }
}

impl Compact {
    /// The array of `members`, which ascend strictly and are at most [`LIMIT`].
    pub(super) fn from_sorted(members: &[u64]) -> Compact {
        debug_assert!(members.len() <= LIMIT && members.is_sorted_by(|a, b| a < b));
        let (Some(&base), Some(&max)) = (members.first(), members.last()) else {
            return Compact::default();
        };
        let (base_width, width) = (width_of(base), width_of(max - base));
        let mut bytes = Vec::with_capacity(1 + base_width + width * (members.len() - 1));
        bytes.push((base_width << 4 | width) as u8);
        bytes.extend_from_slice(&base.to_le_bytes()[..base_width]);
        for &m in &members[1..] {
            bytes.extend_from_slice(&(m - base).to_le_bytes()[..width]);
        }
        Compact(bytes.into_boxed_slice())
    }

    fn view(&self) -> Option<View<'_>> {
        let widths = usize::from(*self.0.first()?);
        let (base_width, width) = (widths >> 4, widths & 15);
        let base = read(&self.0, 1, base_width);
        Some(View {
            base,
            offsets: &self.0[1 + base_width..],
            width,
        })
    }

    /// The number of members.
    pub(super) fn len(&self) -> usize {
        self.view().map_or(0, View::len)
    }

    /// The member with `rank` smaller ones.
    pub(super) fn get(&self, rank: usize) -> Option<u64> {
        self.view()
            .filter(|view| rank < view.len())
            .map(|view| view.at(rank))
    }

    /// The members with `ranks` smaller ones, as far as there are such.
    pub(super) fn slice(&self, ranks: Range<usize>) -> impl DoubleEndedIterator<Item = u64> + '_ {
        let view = self.view();
        let end = view.map_or(0, View::len).min(ranks.end);
        (ranks.start..end).filter_map(move |i| Some(view?.at(i)))
    }

    /// The members, ascending.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = u64> + '_ {
        self.slice(0..LIMIT)
    }

    /// Where `m` is, or where it would be.
    pub(super) fn position(&self, m: u64) -> Result<usize, usize> {
        let Some(view) = self.view() else {
            return Err(0);
        };
        let (mut low, mut high) = (0, view.len());
        while low < high {
            let mid = (low + high) / 2;
            match view.at(mid).cmp(&m) {
                Ordering::Less => low = mid + 1,
                Ordering::Equal => return Ok(mid),
                Ordering::Greater => high = mid,
            }
        }
        Err(low)
    }

    /// Adds `m` unless it is there or there is no room.
    pub(super) fn insert(&mut self, m: u64) -> Inserted {
        let Err(rank) = self.position(m) else {
            return Inserted::Present;
        };
        let len = self.len();
        if len >= LIMIT {
            return Inserted::Full;
        }
        match self.view() {
            Some(view) if rank > 0 && width_of(m - view.base) <= view.width => {
                let cut = self.place(view, rank);
                let offset = (m - view.base).to_le_bytes();
                let parts = [&self.0[..cut], &offset[..view.width], &self.0[cut..]];
                *self = Compact(parts.concat().into_boxed_slice());
            }
            _ => {
                let mut members = Vec::with_capacity(len + 1);
                members.extend(self.iter());
                members.insert(rank, m);
                *self = Compact::from_sorted(&members);
            }
        }
        Inserted::Added
    }

    /// Removes `m`; false when it was not there.
    pub(super) fn remove(&mut self, m: u64) -> bool {
        let Ok(rank) = self.position(m) else {
            return false;
        };
        match self.view() {
            // The base stays, and the largest offset is as wide as it was.
            Some(view)
                if rank > 0
                    && width_of(view.at(self.last_without(view, rank)) - view.base)
                        == view.width =>
            {
                let cut = self.place(view, rank);
                let parts = [&self.0[..cut], &self.0[cut + view.width..]];
                *self = Compact(parts.concat().into_boxed_slice());
            }
            _ => {
                let members: Vec<u64> = self.iter().filter(|&x| x != m).collect();
                *self = Compact::from_sorted(&members);
            }
        }
        true
    }

    /// Where the offset of member number `rank`, not the first, begins.
    fn place(&self, view: View<'_>, rank: usize) -> usize {
        self.0.len() - view.offsets.len() + (rank - 1) * view.width
    }

    /// The number of the largest member once that with `rank` is gone.
    fn last_without(&self, view: View<'_>, rank: usize) -> usize {
        let last = view.len() - 1;
        if rank == last { last - 1 } else { last }
    }

    /// Checks the layout.
    pub(super) fn validate(&self) -> Result<(), &'static str> {
        let members: Vec<u64> = self.iter().collect();
        if members.len() > LIMIT || members.len() != self.len() {
            return Err("compact: wrong number of members");
        }
        if !members.is_sorted_by(|a, b| a < b) {
            return Err("compact: members do not ascend");
        }
        if Compact::from_sorted(&members) != *self {
            return Err("compact: not the shortest encoding");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_few_bytes() {
        assert_eq!(Compact::default().0.len(), 0);
        assert_eq!(Compact::from_sorted(&[0]).0.len(), 2);
        assert_eq!(Compact::from_sorted(&[u64::MAX]).0.len(), 9);
        assert_eq!(
            Compact::from_sorted(&[1 << 60, (1 << 60) + 255]).0.len(),
            10
        );
        assert_eq!(Compact::from_sorted(&[0, u64::MAX]).0.len(), 10);
    }

    #[test]
    fn every_width_keeps_its_members() {
        for base_bits in 0..64 {
            for offset_bits in 0..64 {
                let base = (1u64 << base_bits) - 1;
                let members = [base, base.saturating_add(1 << offset_bits)];
                let c = Compact::from_sorted(&members);
                assert_eq!(c.iter().collect::<Vec<_>>(), members);
                c.validate().unwrap();
            }
        }
    }

    #[test]
    fn insertion_at_either_end_and_between_and_removal_keep_the_shortest_form() {
        let mut c = Compact::default();
        for m in [1000, 0, 500, u64::MAX, 70_000, 999, 1001] {
            assert_eq!(c.insert(m), Inserted::Added);
            assert_eq!(c.insert(m), Inserted::Present);
            c.validate().unwrap();
        }
        assert_eq!(
            c.iter().collect::<Vec<_>>(),
            [0, 500, 999, 1000, 1001, 70_000, u64::MAX]
        );
        for m in [u64::MAX, 0, 999, 500, 70_000, 1001, 1000] {
            assert!(c.remove(m));
            assert!(!c.remove(m));
            c.validate().unwrap();
        }
        assert_eq!(c.0.len(), 0);
    }

    #[test]
    fn a_full_array_refuses() {
        let members: Vec<u64> = (0..LIMIT as u64).map(|i| i * 3).collect();
        let mut c = Compact::from_sorted(&members);
        assert_eq!(c.insert(1), Inserted::Full);
        assert_eq!(c.insert(3), Inserted::Present);
        assert_eq!(c.len(), LIMIT);
    }

    #[test]
    fn positions() {
        let c = Compact::from_sorted(&[5, 10, 15]);
        assert_eq!(c.position(4), Err(0));
        assert_eq!(c.position(5), Ok(0));
        assert_eq!(c.position(11), Err(2));
        assert_eq!(c.position(16), Err(3));
        assert_eq!(c.get(3), None);
        assert_eq!(c.get(usize::MAX), None);
    }
}
