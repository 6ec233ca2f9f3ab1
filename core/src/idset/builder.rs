//! Builds a set of members and dense chunks that arrive in ascending order. Loaders and set operations use it.

use super::chunk::join;
use super::dense::Dense;
use super::error::SetError;
use super::limits::{DENSE, PAGE};
use super::page::Page;
use super::set::IdSet;
use super::tree::{Entry, Node, Tree};

/// The overhead of a dense chunk beside its container's payload: an entry and three small allocations.
const DENSE_OVERHEAD: usize = 112;

/// Collects members and chooses the encoding at the end.
#[derive(Default)]
pub(super) struct Builder {
    tree: Tree,
    /// Members that are not in a page yet: at most those of a chunk and a page.
    pending: Vec<u64>,
    /// The index in `pending` at which the last chunk begins.
    chunk: usize,
    last: Option<u64>,
    len: u64,
}

impl Builder {
    /// The number of members so far.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Adds a member. An error when it is not greater than all earlier ones, or if the allocation fails.
    pub(super) fn push(&mut self, m: u64) -> Result<(), SetError> {
        if let Some(last) = self.last {
            if m <= last {
                return Err(SetError::Payload);
            }
            if m >> 16 != last >> 16 {
                self.end_chunk()?;
            } else if self.pending.is_empty() {
                self.reopen(m >> 16)?;
            }
        }
        self.last = Some(m);
        self.len += 1;
        self.reserve(1)?;
        self.pending.push(m);
        Ok(())
    }

    fn reserve(&mut self, members: usize) -> Result<(), SetError> {
        self.pending
            .try_reserve(members)
            .map_err(|_| SetError::OutOfMemory)
    }

    /// Moves the last chunk, which is dense, back to the pending members, because more of its members follow. Happens
    /// at most once per chunk.
    fn reopen(&mut self, key: u64) -> Result<(), SetError> {
        if let Some(dense) = self.tree.take_dense(key) {
            self.reserve(dense.len() as usize)?;
            self.pending.extend(dense.iter().map(|low| join(key, low)));
        }
        self.chunk = 0;
        Ok(())
    }

    /// Adds a chunk whose members are greater than all earlier ones. A chunk may arrive in parts.
    pub(super) fn push_dense(&mut self, key: u64, dense: Dense) -> Result<(), SetError> {
        let (Some(min), Some(max)) = (dense.min(), dense.max()) else {
            return Err(SetError::Payload);
        };
        if self.last.is_some_and(|last| join(key, min) <= last) {
            return Err(SetError::Payload);
        }
        if self.last.is_some_and(|last| last >> 16 == key) {
            return dense.iter().try_for_each(|low| self.push(join(key, low)));
        }
        self.end_chunk()?;
        self.last = Some(join(key, max));
        self.len += dense.len();
        if fits_dense(&dense) {
            self.flush(true)?;
            self.tree.put_dense(key, dense);
        } else {
            self.reserve(dense.len() as usize)?;
            self.pending.extend(dense.iter().map(|low| join(key, low)));
        }
        Ok(())
    }

    /// Removes the pending members of the last chunk.
    fn take_chunk(&mut self) -> Option<Dense> {
        let lows: Vec<u16> = self.pending.drain(self.chunk..).map(|m| m as u16).collect();
        Dense::from_sorted(&lows)
    }

    /// Chooses the tier of the last chunk, which is complete.
    fn end_chunk(&mut self) -> Result<(), SetError> {
        let members = &self.pending[self.chunk..];
        if members.len() > DENSE || has_long_runs(members) {
            let key = members[0] >> 16;
            if let Some(mut dense) = self.take_chunk() {
                dense.optimize();
                self.flush(true)?;
                self.tree.put_dense(key, dense);
            }
        } else if self.pending.len() >= PAGE {
            self.flush(false)?;
        }
        self.chunk = self.pending.len();
        Ok(())
    }

    /// Moves pending members to pages: as many as fill pages completely, or all of them.
    fn flush(&mut self, all: bool) -> Result<(), SetError> {
        let len = self.pending.len();
        let (end, each) = if all {
            (len, len.div_ceil(len.div_ceil(PAGE).max(1)).max(1))
        } else {
            (len - len % PAGE, PAGE)
        };
        for members in self.pending[..end].chunks(each) {
            let page = Page::try_from_sorted(members)?;
            self.tree.put(Entry {
                start: members[0],
                node: Node::page(page),
            });
        }
        self.pending.drain(..end);
        self.chunk = 0;
        Ok(())
    }

    /// The set, in its smallest encoding.
    pub(super) fn finish(mut self) -> Result<IdSet, SetError> {
        if self.len <= PAGE as u64 {
            let mut members = Vec::new();
            self.tree.copy_up(0, usize::MAX, &mut members);
            members.extend(&self.pending);
            return Ok(IdSet::from_page(Page::try_from_sorted(&members)?));
        }
        self.end_chunk()?;
        self.flush(true)?;
        Ok(IdSet::from_tree(Box::new(self.tree)))
    }
}

/// Whether a chunk takes less memory as one container than in pages.
fn fits_dense(dense: &Dense) -> bool {
    let len = dense.len() as usize;
    len > DENSE || dense.is_run() && dense.payload_len() + DENSE_OVERHEAD < len
}

/// Whether these members of one chunk take less memory as runs than in pages, where even consecutive members take about a
/// byte each.
fn has_long_runs(members: &[u64]) -> bool {
    let Some(most) = members.len().checked_sub(DENSE_OVERHEAD) else {
        return false;
    };
    let breaks = members.windows(2).filter(|pair| pair[1] - pair[0] > 1);
    4 * (1 + breaks.take(most).count()) < most
}
