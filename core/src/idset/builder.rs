//! Makes a set of members and dense chunks that arrive in ascending order: what loaders and set operations share.

use super::dense::Dense;
use super::limits::{DENSE, PAGE};
use super::page::Page;
use super::tree::{Entry, Node, Tree, join};
use super::{IdSet, SetError};

/// What a dense chunk takes beside its container's payload: an entry and three small allocations.
const DENSE_OVERHEAD: usize = 112;

/// Collects, and at the end chooses the form.
#[derive(Default)]
pub(super) struct Builder {
    tree: Tree,
    /// Members that are in no page yet, at most those of a chunk and a page ...
    pending: Vec<u64>,
    /// ... and where those of the last chunk begin.
    chunk: usize,
    last: Option<u64>,
    len: u64,
}

impl Builder {
    /// The number of members so far.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Adds a member. An error when it is not greater than all before, or when there is no memory.
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

    /// Takes the last chunk, which is dense, back: more of it comes. That happens once to a chunk, whatever comes.
    fn reopen(&mut self, key: u64) -> Result<(), SetError> {
        if let Some(dense) = self.tree.take_dense(key) {
            self.reserve(dense.len() as usize)?;
            self.pending.extend(dense.iter().map(|low| join(key, low)));
        }
        self.chunk = 0;
        Ok(())
    }

    /// Adds a chunk, whose members must be greater than all before. A chunk may come in parts.
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
        if suits(&dense) {
            self.flush(true)?;
            self.tree.put_dense(key, dense);
        } else {
            self.reserve(dense.len() as usize)?;
            self.pending.extend(dense.iter().map(|low| join(key, low)));
        }
        Ok(())
    }

    /// Takes the members of the last chunk back.
    fn take_chunk(&mut self) -> Option<Dense> {
        let lows: Vec<u16> = self.pending.drain(self.chunk..).map(|m| m as u16).collect();
        Dense::from_sorted(&lows)
    }

    /// No more of the last chunk will come: chooses its tier.
    fn end_chunk(&mut self) -> Result<(), SetError> {
        let members = &self.pending[self.chunk..];
        if members.len() > DENSE || made_of_runs(members) {
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

    /// Makes pages of the pending members: full ones, or of `all`.
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

    /// The set, in the smaller form.
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
fn suits(dense: &Dense) -> bool {
    let len = dense.len() as usize;
    len > DENSE || dense.is_run() && dense.payload_len() + DENSE_OVERHEAD < len
}

/// Whether so many of these members of one chunk follow one another that runs take less memory than pages, in which a
/// member takes about a byte even there.
fn made_of_runs(members: &[u64]) -> bool {
    let Some(most) = members.len().checked_sub(DENSE_OVERHEAD) else {
        return false;
    };
    let breaks = members.windows(2).filter(|pair| pair[1] - pair[0] > 1);
    4 * (1 + breaks.take(most).count()) < most
}
