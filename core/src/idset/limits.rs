//! The sizes at which a set changes its encoding. Unit tests use small ones, so that a few members cross all of them.

/// The maximum number of members of a page, and of a set that is a single page.
pub(super) const PAGE: usize = if cfg!(test) { 8 } else { 256 };

/// A tree with fewer members than this becomes a page again. The gap between this and [`PAGE`] keeps a set at the limit
/// from changing its encoding with every call.
pub(super) const SHRINK: u64 = PAGE as u64 * 3 / 8;

/// Adjacent pages are merged when they have at most this number of members together, and one is at most half full.
pub(super) const MERGED: usize = PAGE * 7 / 8;

/// Whether a page that has shrunk to `len` members is checked for merging. Not on every removal, because the check
/// costs as much as the removal itself.
pub(super) fn checks_merge(len: usize) -> bool {
    len <= PAGE / 2 && (len.is_multiple_of(8) || PAGE < 64)
}

/// The maximum number of entries of a group of the directory.
pub(super) const GROUP: usize = if cfg!(test) { 4 } else { 128 };

/// A chunk with more members than this becomes dense when one of its pages would be split. From here on, pages take about
/// as many bytes as a bitmap (8 KB).
pub(super) const DENSE: usize = if cfg!(test) { 40 } else { 4608 };

/// A dense chunk with fewer members than this becomes pages again.
pub(super) const SPARSE: u64 = if cfg!(test) { 25 } else { 3072 };

/// A full page that spans more ids than this is not in a chunk that can become dense: at its density the chunk has
/// fewer than half of [`DENSE`] members.
pub(super) const DENSE_SPAN: u64 = 2 * 65_536 * PAGE as u64 / DENSE as u64;
