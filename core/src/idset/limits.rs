//! The sizes at which a set changes its form. Unit tests have small ones, so that a few members cross all of them.

/// The most members of a page, and so of a set that is a single page.
pub(super) const PAGE: usize = if cfg!(test) { 8 } else { 256 };

/// A tree with fewer members than this becomes a page again. The gap keeps a set at the border from changing its form
/// with every call.
pub(super) const SHRINK: u64 = PAGE as u64 * 3 / 8;

/// Neighbouring pages become one when they have no more members than this together, and one has at most half a page.
pub(super) const MERGED: usize = PAGE * 7 / 8;

/// Whether a page that has shrunk to `len` members looks for a neighbour to merge with. Not each time: looking costs as
/// much as the removal itself.
pub(super) fn looks_to_merge(len: usize) -> bool {
    len <= PAGE / 2 && (len.is_multiple_of(8) || PAGE < 64)
}

/// The most entries of a group of the directory.
pub(super) const GROUP: usize = if cfg!(test) { 4 } else { 128 };

/// A chunk of 65,536 ids with more members than this becomes dense when one of its pages would have to be split. Pages
/// would take about as many bytes as a bitmap (8 KB) from here on.
pub(super) const DENSE: usize = if cfg!(test) { 40 } else { 4608 };

/// A dense chunk with fewer members than this becomes pages again.
pub(super) const SPARSE: u64 = if cfg!(test) { 25 } else { 3072 };

/// A full page that spans more ids than this is not in a chunk that could be dense: at its density half the limit would
/// not be reached.
pub(super) const DENSE_SPAN: u64 = 2 * 65_536 * PAGE as u64 / DENSE as u64;
