//! The memory of a page: one allocation, found through one pointer.
//!
//! ```text
//!  word 0                                                           word 1, if flag is set    then
//! +--------------+-----------+----------+-----------+--------------+------------------------+-----------------------+
//! | len: 16 bits | width: 7  | flag: 1  | scale: 8  | base: 32     | base: 64               | len offsets of width  |
//! +--------------+-----------+----------+-----------+--------------+------------------------+-----------------------+
//! ```
//!
//! The allocation has exactly a size class of jemalloc, so that rounding wastes nothing, and it is moved only when the
//! class changes. All of its words are initialized.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error, realloc};
use std::ptr::NonNull;
use std::slice;

use crate::size_class::size_class;

/// Sorted members in one allocation; see [`super`]. The empty page has no allocation.
#[repr(transparent)]
pub(in super::super) struct Page(NonNull<u64>);

// SAFETY: a page is the only owner of its allocation, which is plain words and belongs to no thread.
unsafe impl Send for Page {}
// SAFETY: a shared page is only read.
unsafe impl Sync for Page {}

/// The target of all empty pages. It is never written or freed.
static EMPTY: u64 = 0;

/// The words before the offsets, decoded.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(super) struct Head {
    /// The number of members.
    pub(super) len: usize,
    /// Bits of an offset.
    pub(super) width: usize,
    /// 128 times the ratio of 2^width to the largest offset plus one, at most 255: the factor of interpolation search.
    pub(super) scale: u64,
    /// The base: a lower bound of the smallest member.
    pub(super) base: u64,
}

impl Head {
    /// The number of words before the offsets.
    #[inline]
    pub(super) fn skip(self) -> usize {
        1 + usize::from(self.is_wide())
    }

    #[inline]
    fn is_wide(self) -> bool {
        self.base > u64::from(u32::MAX)
    }

    /// The bit of the page where offset number `i` begins.
    #[inline]
    pub(super) fn bit(self, i: usize) -> usize {
        self.skip() * 64 + self.place(i)
    }

    /// The bit of the offsets' words where offset number `i` begins.
    #[inline]
    pub(super) fn place(self, i: usize) -> usize {
        i * self.width
    }

    /// The number of words in use.
    #[inline]
    fn words(self) -> usize {
        self.bit(self.len).div_ceil(64)
    }

    /// The number of words of the allocation.
    #[inline]
    fn capacity(self) -> usize {
        size_class(self.words() * 8) / 8
    }

    fn layout(self) -> Layout {
        layout(self.capacity())
    }

    /// The first word. It determines the size of the page's allocation, so a number that does not fit its bits panics
    /// instead of being truncated.
    #[inline]
    fn word(self) -> u64 {
        let (len, width) = (self.len as u64, self.width as u64);
        let excess = len >> 16 | width >> 7 | self.scale >> 8;
        assert!(excess == 0, "a head does not fit its word");
        let wide = self.is_wide();
        let base = if wide { 0 } else { self.base };
        len | width << 16 | u64::from(wide) << 23 | self.scale << 24 | base << 32
    }
}

#[inline]
fn layout(words: usize) -> Layout {
    // `Layout::array` cannot fail for the few hundred words of a page.
    Layout::array::<u64>(words).unwrap_or(Layout::new::<u64>())
}

impl Page {
    /// The empty page, without an allocation.
    pub(in super::super) fn empty() -> Page {
        Page(NonNull::from(&EMPTY))
    }

    /// The decoded head.
    #[inline]
    pub(super) fn head(&self) -> Head {
        // SAFETY: the pointer always has a first word.
        let head = unsafe { self.0.read() };
        let base = if head >> 23 & 1 == 0 {
            head >> 32
        } else {
            // SAFETY: the flag is set, so the second word is the base.
            unsafe { self.0.add(1).read() }
        };
        Head {
            len: head as usize & 0xffff,
            width: head as usize >> 16 & 127,
            scale: head >> 24 & 255,
            base,
        }
    }

    /// Writes the head.
    ///
    /// # Safety
    /// `word` is the first word of `head`, and the page owns an allocation of the layout of `head`.
    #[inline]
    unsafe fn write_head(&mut self, head: Head, word: u64) {
        // SAFETY: the caller's promise, and `&mut self` is the only way to the allocation.
        unsafe {
            self.0.write(word);
            if head.is_wide() {
                self.0.add(1).write(head.base);
            }
        }
    }

    /// A page with this head, of at least one member, and with offsets of 0. `None` if the allocation fails.
    pub(super) fn zeroed(head: Head) -> Option<Page> {
        assert!(head.len > 0, "an empty page has no allocation");
        let word = head.word();
        // SAFETY: the size of the layout is not 0: a head takes at least one word.
        let cell = NonNull::new(unsafe { alloc_zeroed(head.layout()) })?;
        let mut page = Page(cell.cast());
        // SAFETY: the allocation was made for this head.
        unsafe { page.write_head(head, word) };
        Some(page)
    }

    /// The decoded head, and the bytes in use, beginning with those of the head.
    #[inline]
    pub(super) fn parts(&self) -> (Head, &[u8]) {
        let head = self.head();
        // SAFETY: the head determines the number of words in use, and all words are initialized.
        let bytes = unsafe { slice::from_raw_parts(self.0.as_ptr().cast(), head.words() * 8) };
        (head, bytes)
    }

    /// The words of the offsets.
    fn offsets(&self) -> &[u64] {
        let head = self.head();
        let skip = head.skip();
        // SAFETY: the head determines the number of words in use, beginning with its own, and all words are initialized.
        unsafe { slice::from_raw_parts(self.0.as_ptr().add(skip), head.words() - skip) }
    }

    /// The words of the offsets and the spare words of the allocation. Panics for an empty page.
    #[inline]
    pub(super) fn offsets_mut(&mut self) -> &mut [u64] {
        let head = self.head();
        assert!(head.len > 0, "an empty page has no allocation");
        let skip = head.skip();
        // SAFETY: the head determines the capacity, which is at least `skip` words; all words are initialized, and
        // `&mut self` is exclusive. The head is left out, so that the capacity cannot be changed.
        unsafe { slice::from_raw_parts_mut(self.0.as_ptr().add(skip), head.capacity() - skip) }
    }

    /// Sets another head with the same number of words before the offsets, and resizes the allocation to match. New words are
    /// 0. Panics for an empty page.
    #[inline]
    pub(super) fn set_head(&mut self, new: Head) {
        let old = self.head();
        assert!(
            old.len > 0 && new.len > 0,
            "an empty page has no allocation"
        );
        debug_assert!(old.skip() == new.skip());
        let word = new.word();
        let (before, after) = (old.capacity(), new.capacity());
        // SAFETY: the old head determines the capacity; after resizing it is that of the new head.
        unsafe {
            if before != after {
                self.resize(before, after);
            }
            self.write_head(new, word);
        }
    }

    /// Moves the page to an allocation of `after` words.
    ///
    /// # Safety
    /// The allocation has `before` words. Neither number is 0. The caller then writes a head of the new capacity.
    unsafe fn resize(&mut self, before: usize, after: usize) {
        // SAFETY: the caller's promise; the words that are added are initialized before they can be read.
        unsafe {
            let cell = realloc(self.0.as_ptr().cast(), layout(before), after * 8);
            let Some(cell) = NonNull::new(cell.cast::<u64>()) else {
                handle_alloc_error(layout(after));
            };
            if after > before {
                cell.add(before).write_bytes(0, after - before);
            }
            self.0 = cell;
        }
    }

    /// The bytes requested from the allocator.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        if self.head().len == 0 {
            0
        } else {
            self.head().layout().size()
        }
    }

    /// Aborts, as the standard library does when an allocation fails.
    pub(super) fn alloc_failed(head: Head) -> ! {
        handle_alloc_error(head.layout())
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let head = self.head();
        if head.len > 0 {
            // SAFETY: a page with members owns an allocation of the layout that its head determines.
            unsafe { dealloc(self.0.as_ptr().cast(), head.layout()) };
        }
    }
}

impl Clone for Page {
    /// The same members in another allocation.
    fn clone(&self) -> Page {
        let head = self.head();
        if head.len == 0 {
            return Page::empty();
        }
        let Some(mut copy) = Page::zeroed(head) else {
            Page::alloc_failed(head);
        };
        let offsets = self.offsets();
        copy.offsets_mut()[..offsets.len()].copy_from_slice(offsets);
        copy
    }
}
