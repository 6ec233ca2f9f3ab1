//! A page: up to [`PAGE`] members in ascending order, in one allocation.
//!
//! A member is stored as its offset from the page's base, and all offsets have the width of the largest (frame of
//! reference). A single id costs 8 or 16 bytes; random ids cost little more than the logarithm of the page's span each.
//! The base is a lower bound of the members: when a smaller member is inserted, the base moves down as far as the width
//! allows, so that descending ids do not rewrite the page each time.
//!
//! A lookup is an interpolation search: it estimates the position, since the members of one page are mostly evenly
//! distributed, and scans its neighbours, which are in one or two cache lines. If the member is not among them, a binary
//! search follows, so the worst case is O(log n).

mod cell;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub(super) use self::cell::Page;

use self::cell::Head;
use super::bits;
use super::error::SetError;
use super::limits::PAGE;

/// The result of [`Page::insert`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inserted {
    /// The member was added.
    Added,
    /// The page has the member already.
    Present,
    /// The member is new, but the page is full. Nothing changed.
    Full,
}

/// The distance from the estimated position that a lookup scans before it falls back to binary search: twice the typical
/// deviation of random members of a full page.
const NEAR: usize = 16;

/// A buffer for the members of a full page plus one.
struct Buffer([u64; PAGE + 1]);

impl Head {
    /// The head of a page of `len` members from `min` to `max`. The base is `min`.
    fn of(len: usize, min: u64, max: u64) -> Head {
        Head {
            len,
            width: bits::width_of(max - min),
            scale: 0,
            base: min,
        }
        .scaled(max)
    }

    /// The head with the scale for this largest member.
    #[inline]
    fn scaled(mut self, max: u64) -> Head {
        let largest = max - self.base;
        // The largest offset, scaled so that 2^width is 256.
        let top = match self.width {
            0..8 => largest << (8 - self.width),
            width => largest >> (width - 8),
        } as u32;
        self.scale = u64::from(32_768 / (top + 1)).min(255);
        self
    }

    /// An estimate of the number of members with smaller offsets.
    #[inline]
    fn estimate(self, offset: u64) -> usize {
        let top = match self.width {
            0..16 => offset << (16 - self.width),
            width => offset >> (width - 16),
        };
        ((top * self.scale * self.len as u64) >> 23) as usize
    }
}

/// A page's offsets.
#[derive(Clone, Copy)]
struct View<'a> {
    head: Head,
    bytes: &'a [u8],
}

impl View<'_> {
    /// The offset at index `i`, which must be less than the length.
    #[inline]
    fn at(self, i: usize) -> u64 {
        bits::read(self.bytes, self.head.bit(i + 1), self.head.width)
    }

    /// The number of offsets smaller than this one.
    #[inline]
    fn lower_bound(self, offset: u64) -> usize {
        let estimate = self.head.estimate(offset).min(self.head.len);
        let (first, last) = (
            estimate.saturating_sub(NEAR),
            (estimate + NEAR).min(self.head.len),
        );
        let mut at = estimate;
        while at < last && self.at(at) < offset {
            at += 1;
        }
        while at > first && self.at(at - 1) >= offset {
            at -= 1;
        }
        if at == last && last < self.head.len {
            self.binary_search(last..self.head.len, offset)
        } else if at == first && first > 0 {
            self.binary_search(0..first, offset)
        } else {
            at
        }
    }

    /// [`lower_bound`](Self::lower_bound) by binary search, where all offsets before `range` are smaller and none after it is.
    #[cold]
    fn binary_search(self, mut range: Range<usize>, offset: u64) -> usize {
        while !range.is_empty() {
            let middle = range.start.midpoint(range.end);
            if self.at(middle) < offset {
                range.start = middle + 1;
            } else {
                range.end = middle;
            }
        }
        range.start
    }
}

impl Page {
    /// The page of these members, at most [`PAGE`] in strictly ascending order.
    pub(super) fn from_sorted(members: &[u64]) -> Page {
        let Some(head) = Page::head_of(members) else {
            return Page::empty();
        };
        let Some(page) = Page::zeroed(head) else {
            Page::alloc_failed(head);
        };
        page.filled(members)
    }

    /// [`from_sorted`](Self::from_sorted), with an error if the allocation fails.
    pub(super) fn try_from_sorted(members: &[u64]) -> Result<Page, SetError> {
        let Some(head) = Page::head_of(members) else {
            return Ok(Page::empty());
        };
        let page = Page::zeroed(head).ok_or(SetError::OutOfMemory)?;
        Ok(page.filled(members))
    }

    fn head_of(members: &[u64]) -> Option<Head> {
        debug_assert!(members.len() <= PAGE && members.is_sorted_by(|a, b| a < b));
        let (&min, &max) = (members.first()?, members.last()?);
        Some(Head::of(members.len(), min, max))
    }

    /// Stores the offsets of these members. Their number is that of the head.
    fn filled(mut self, members: &[u64]) -> Page {
        let head = self.head();
        if head.width == 0 {
            return self;
        }
        let words = self.offsets_mut();
        for (i, m) in members.iter().enumerate() {
            bits::write(words, head.place(i), head.width, m - head.base);
        }
        self
    }

    #[inline]
    fn view(&self) -> View<'_> {
        let (head, bytes) = self.parts();
        View { head, bytes }
    }

    /// The number of members.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.head().len
    }

    /// Whether the page has no members.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The member with `rank` smaller ones.
    pub(super) fn get(&self, rank: usize) -> Option<u64> {
        let view = self.view();
        (rank < view.head.len).then(|| view.head.base + view.at(rank))
    }

    /// The smallest member.
    pub(super) fn min(&self) -> Option<u64> {
        self.get(0)
    }

    /// The largest member.
    pub(super) fn max(&self) -> Option<u64> {
        self.get(self.len().checked_sub(1)?)
    }

    /// The members with these ranks. Ranks past the end are ignored.
    pub(super) fn slice(&self, ranks: Range<usize>) -> impl DoubleEndedIterator<Item = u64> + '_ {
        let view = self.view();
        (ranks.start..ranks.end.min(view.head.len)).map(move |i| view.head.base + view.at(i))
    }

    /// The members, ascending.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = u64> + '_ {
        self.slice(0..PAGE)
    }

    /// The rank of `m`: `Err` with the rank at which it would be inserted.
    #[inline]
    pub(super) fn position(&self, m: u64) -> Result<usize, usize> {
        let view = self.view();
        let Some(offset) = m.checked_sub(view.head.base) else {
            return Err(0);
        };
        if offset > bits::max_of(view.head.width) {
            return Err(view.head.len);
        }
        let rank = view.lower_bound(offset);
        if rank < view.head.len && view.at(rank) == offset {
            Ok(rank)
        } else {
            Err(rank)
        }
    }

    /// The number of members smaller than `m`.
    pub(super) fn rank(&self, m: u64) -> usize {
        self.position(m).unwrap_or_else(|rank| rank)
    }

    /// The number of members that are at most `m`.
    pub(super) fn rank_after(&self, m: u64) -> usize {
        self.position(m).map_or_else(|rank| rank, |rank| rank + 1)
    }

    /// Adds `m`, unless the page has it or is full.
    #[inline]
    pub(super) fn insert(&mut self, m: u64) -> Inserted {
        let Err(rank) = self.position(m) else {
            return Inserted::Present;
        };
        let head = self.head();
        if head.len >= PAGE {
            return Inserted::Full;
        }
        if head.len == 0 || m < head.base || m - head.base > bits::max_of(head.width) {
            self.insert_outside(rank, m);
            return Inserted::Added;
        }
        let mut new = Head {
            len: head.len + 1,
            ..head
        };
        if rank == head.len {
            new = new.scaled(m);
        }
        self.set_head(new);
        let words = self.offsets_mut();
        bits::insert_gap(words, head.place(rank), head.place(head.len), head.width);
        bits::write(words, head.place(rank), head.width, m - head.base);
        Inserted::Added
    }

    /// Adds a member that requires another base or width. Rewrites the page.
    #[cold]
    fn insert_outside(&mut self, rank: usize, m: u64) {
        let mut buffer = Buffer([0; PAGE + 1]);
        let old = self.decode(&mut buffer).len();
        buffer.0.copy_within(rank..old, rank + 1);
        buffer.0[rank] = m;
        let members = &buffer.0[..=old];
        let (min, max) = (members[0], members[old]);
        let mut head = Head::of(members.len(), min, max);
        if rank == 0 && old > 0 {
            // Leaves room below, for further descending members.
            head.base = max.saturating_sub(bits::max_of(head.width));
            head = head.scaled(max);
        }
        let Some(page) = Page::zeroed(head) else {
            Page::alloc_failed(head);
        };
        *self = page.filled(members);
    }

    fn decode<'b>(&self, buffer: &'b mut Buffer) -> &'b mut [u64] {
        let members = &mut buffer.0[..self.len()];
        members
            .iter_mut()
            .zip(self.iter())
            .for_each(|(to, m)| *to = m);
        members
    }

    /// Removes `m`. Returns whether it was a member.
    pub(super) fn remove(&mut self, m: u64) -> bool {
        let Ok(rank) = self.position(m) else {
            return false;
        };
        let view = self.view();
        let (head, last) = (view.head, view.head.len - 1);
        if last == 0 {
            *self = Page::empty();
            return true;
        }
        if rank == 0 || rank == last {
            let min = head.base + view.at(usize::from(rank == 0));
            let max = head.base + view.at(last - usize::from(rank == last));
            if bits::width_of(max - min) < head.width {
                let mut buffer = Buffer([0; PAGE + 1]);
                let members = self.decode(&mut buffer);
                members.copy_within(rank + 1.., rank);
                *self = Page::from_sorted(&members[..last]);
                return true;
            }
        }
        let words = self.offsets_mut();
        bits::remove_gap(words, head.place(rank), head.place(head.len), head.width);
        self.set_head(Head { len: last, ..head });
        true
    }

    /// Keeps the first `rank` members. Returns a page of the others.
    pub(super) fn split_off(&mut self, rank: usize) -> Page {
        let mut buffer = Buffer([0; PAGE + 1]);
        let (left, right) = self.decode(&mut buffer).split_at(rank);
        *self = Page::from_sorted(left);
        Page::from_sorted(right)
    }

    /// The members of both pages, together at most [`PAGE`]. Those of `right` are all larger.
    pub(super) fn joined(&self, right: &Page) -> Page {
        let mut buffer = Buffer([0; PAGE + 1]);
        let len = self.len() + right.len();
        let all = self.iter().chain(right.iter());
        buffer.0[..len]
            .iter_mut()
            .zip(all)
            .for_each(|(to, m)| *to = m);
        Page::from_sorted(&buffer.0[..len])
    }

    /// Checks the layout.
    pub(super) fn validate(&self) -> Result<(), &'static str> {
        let head = self.head();
        let members: Vec<u64> = self.iter().collect();
        let (Some(&min), Some(&max)) = (members.first(), members.last()) else {
            return Ok(());
        };
        if members.len() > PAGE || members.len() != head.len {
            return Err("page: wrong number of members");
        }
        if !members.is_sorted_by(|a, b| a < b) {
            return Err("page: members do not ascend");
        }
        if bits::width_of(max - min) != head.width {
            return Err("page: not the smallest width");
        }
        Ok(())
    }
}
