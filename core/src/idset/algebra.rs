//! Set algebra over any number of sets, node by node, without intermediate sets.
//!
//! `And` and `Diff` iterate over one set, the smallest or the first, and look its members up in the others. `Or` and `Xor`
//! are a k-way merge of all sets: the members of pages are merged up to the end of the first node that ends, and a chunk
//! that is dense in any set is combined as containers.

use std::alloc::{Layout, handle_alloc_error};
use std::borrow::Cow;
use std::mem::swap;

use super::builder::Builder;
use super::chunk::{bounds, split};
use super::dense::{self, Dense};
use super::error::SetError;
use super::limits::PAGE;
use super::nodes::NodeRef;
use super::op::SetOp;
use super::set::IdSet;
use super::tagged_pointer::{Ref, RefMut};

impl IdSet {
    /// The result of `op` on `sets`, in its smallest encoding; empty without sets.
    ///
    /// O(members of all sets); `And` O(members of the smallest set), `Diff` O(members of the first set).
    pub fn combine(op: SetOp, sets: &[&IdSet]) -> IdSet {
        let mut result = Builder::default();
        let made = run(op, sets, &mut result).and_then(|()| result.finish());
        match made {
            Ok(set) => set,
            Err(SetError::OutOfMemory) => handle_alloc_error(Layout::new::<[u64; PAGE]>()),
            Err(SetError::Payload) => unreachable!("the members of sets ascend"),
        }
    }

    /// The cardinality of the result of [`IdSet::combine`]. At most one chunk of the result is in memory at a time.
    pub fn combine_len(op: SetOp, sets: &[&IdSet]) -> u64 {
        let mut count = Count(0);
        // Counting cannot fail.
        let _ = run(op, sets, &mut count);
        count.0
    }

    /// Adds all members of `other`. Returns the number of new members.
    pub fn union_with(&mut self, mut other: IdSet) -> u64 {
        let before = self.len();
        if self.free_effort() < other.free_effort() {
            swap(self, &mut other);
        }
        if other.free_effort() > PAGE && other.free_effort() > self.free_effort() / 8 {
            *self = IdSet::combine(SetOp::Or, &[self, &other]);
        } else {
            self.insert_all(&other);
        }
        self.len() - before
    }

    /// Adds the members of a set that is much smaller than this one.
    fn insert_all(&mut self, other: &IdSet) {
        for node in other.nodes_from(0) {
            match (node, self.0.get_mut()) {
                (NodeRef::Dense(key, dense), RefMut::Boxed(tree)) => tree.insert_chunk(key, dense),
                (node, _) => node.members().for_each(|m| {
                    self.insert(m);
                }),
            }
        }
    }
}

/// Consumes a result in ascending order.
trait Sink {
    /// Members of the result.
    fn members(&mut self, members: &[u64]) -> Result<(), SetError>;
    /// A chunk of the result: `op` on these chunks.
    fn chunk(&mut self, op: SetOp, key: u64, parts: &[&Dense]) -> Result<(), SetError>;
}

impl Sink for Builder {
    fn members(&mut self, members: &[u64]) -> Result<(), SetError> {
        members.iter().try_for_each(|&m| self.push(m))
    }

    fn chunk(&mut self, op: SetOp, key: u64, parts: &[&Dense]) -> Result<(), SetError> {
        match dense::merge(op, parts) {
            Some(dense) => self.push_dense(key, dense),
            None => Ok(()),
        }
    }
}

struct Count(u64);

impl Sink for Count {
    fn members(&mut self, members: &[u64]) -> Result<(), SetError> {
        self.0 += members.len() as u64;
        Ok(())
    }

    fn chunk(&mut self, op: SetOp, _: u64, parts: &[&Dense]) -> Result<(), SetError> {
        self.0 += dense::merge_len(op, parts);
        Ok(())
    }
}

fn run(op: SetOp, sets: &[&IdSet], sink: &mut impl Sink) -> Result<(), SetError> {
    let driver = match op {
        SetOp::Or | SetOp::Xor => return merge(op, sets, sink),
        SetOp::And => (0..sets.len()).min_by_key(|&i| sets[i].len()),
        SetOp::Diff => (!sets.is_empty()).then_some(0),
    };
    let Some(driver) = driver else {
        return Ok(());
    };
    let others: Vec<&IdSet> = (0..sets.len())
        .filter(|&i| i != driver)
        .map(|i| sets[i])
        .collect();
    filter(op, sets[driver], &others, sink)
}

/// `And` or `Diff`: keeps the members of `driver` that are in all other sets, or in none of them.
fn filter(
    op: SetOp,
    driver: &IdSet,
    others: &[&IdSet],
    sink: &mut impl Sink,
) -> Result<(), SetError> {
    let mut members = Vec::new();
    for node in driver.nodes_from(0) {
        match node {
            NodeRef::Page(page) => {
                members.clear();
                members.extend(page.iter());
                for other in others {
                    other.retain(&mut members, op == SetOp::And);
                }
                sink.members(&members)?;
            }
            NodeRef::Dense(key, dense) => {
                let parts: Vec<Cow<Dense>> =
                    others.iter().filter_map(|set| set.chunk(key)).collect();
                if op == SetOp::And && parts.len() < others.len() {
                    continue;
                }
                let parts = parts.iter().map(|part| &**part);
                let parts: Vec<&Dense> = std::iter::once(dense).chain(parts).collect();
                sink.chunk(op, key, &parts)?;
            }
        }
    }
    Ok(())
}

/// `Or` or `Xor`: a k-way merge.
fn merge(op: SetOp, sets: &[&IdSet], sink: &mut impl Sink) -> Result<(), SetError> {
    let mut cursors: Vec<Cursor<_>> = sets
        .iter()
        .map(|set| Cursor::new(set.nodes_from(0)))
        .collect();
    let mut members = Vec::new();
    loop {
        // The next dense chunk, and the last id up to which the members of every set are loaded.
        let chunk = cursors.iter().filter_map(Cursor::chunk).min();
        let known = cursors.iter().filter_map(Cursor::last).min();
        members.clear();
        for cursor in &mut cursors {
            cursor.take_members(chunk, known, &mut members);
        }
        if !members.is_empty() {
            reduce(op, &mut members);
            sink.members(&members)?;
        } else if let Some(key) = chunk {
            let parts: Vec<Cow<Dense>> = cursors
                .iter_mut()
                .filter_map(|cursor| cursor.take_chunk(key))
                .collect();
            let parts: Vec<&Dense> = parts.iter().map(|part| &**part).collect();
            sink.chunk(op, key, &parts)?;
        } else {
            return Ok(());
        }
    }
}

/// Sorts and deduplicates (`Or`), or keeps members that occur an odd number of times (`Xor`).
fn reduce(op: SetOp, members: &mut Vec<u64>) {
    // The stable sort is a merge sort, which is fast for a few sorted runs.
    members.sort();
    if op == SetOp::Or {
        members.dedup();
        return;
    }
    let (mut kept, mut i) = (0, 0);
    while i < members.len() {
        let same = members[i..]
            .iter()
            .take_while(|&&m| m == members[i])
            .count();
        if same % 2 == 1 {
            members[kept] = members[i];
            kept += 1;
        }
        i += same;
    }
    members.truncate(kept);
}

/// The position of the merge in a set.
struct Cursor<'a, I> {
    nodes: I,
    /// The members of the current page. Those in `at..` are still to be merged.
    members: Vec<u64>,
    at: usize,
    /// The current chunk, if the current node is dense.
    dense: Option<(u64, &'a Dense)>,
}

impl<'a, I: Iterator<Item = NodeRef<'a>>> Cursor<'a, I> {
    fn new(nodes: I) -> Cursor<'a, I> {
        let mut cursor = Cursor {
            nodes,
            members: Vec::new(),
            at: 0,
            dense: None,
        };
        cursor.refill();
        cursor
    }

    /// Loads the next node if the current one is exhausted.
    fn refill(&mut self) {
        if self.at < self.members.len() || self.dense.is_some() {
            return;
        }
        self.members.clear();
        self.at = 0;
        match self.nodes.next() {
            Some(NodeRef::Page(page)) => self.members.extend(page.iter()),
            Some(NodeRef::Dense(key, dense)) => self.dense = Some((key, dense)),
            None => {}
        }
    }

    fn chunk(&self) -> Option<u64> {
        self.dense.map(|(key, _)| key)
    }

    fn last(&self) -> Option<u64> {
        self.members.last().copied()
    }

    /// Moves the members that are before `chunk` and at most `known` to `out`.
    fn take_members(&mut self, chunk: Option<u64>, known: Option<u64>, out: &mut Vec<u64>) {
        let rest = &self.members[self.at..];
        let within = |&m: &u64| {
            chunk.is_none_or(|key| m >> 16 < key) && known.is_none_or(|known| m <= known)
        };
        let n = rest.partition_point(within);
        out.extend(&rest[..n]);
        self.at += n;
        self.refill();
    }

    /// Takes all members of the chunk `key`, if there are any. Earlier members were taken before.
    fn take_chunk(&mut self, key: u64) -> Option<Cow<'a, Dense>> {
        if let Some((mine, dense)) = self.dense {
            if mine != key {
                return None;
            }
            self.dense = None;
            self.refill();
            return Some(Cow::Borrowed(dense));
        }
        let mut lows = Vec::new();
        while let Some(&m) = self.members.get(self.at)
            && m >> 16 == key
        {
            lows.push(m as u16);
            self.at += 1;
            self.refill();
        }
        Dense::from_sorted(&lows).map(Cow::Owned)
    }
}

impl IdSet {
    /// The members of a chunk, if there are any.
    fn chunk(&self, key: u64) -> Option<Cow<'_, Dense>> {
        let (first, last) = bounds(key);
        let mut lows = Vec::new();
        for node in self.nodes_from(first) {
            match node {
                NodeRef::Dense(mine, dense) if mine == key => return Some(Cow::Borrowed(dense)),
                NodeRef::Dense(mine, _) if mine > key => break,
                NodeRef::Dense(..) => {}
                NodeRef::Page(page) => {
                    let members = page.slice(page.rank(first)..page.rank_after(last));
                    lows.extend(members.map(|m| split(m).1));
                    if page.max() > Some(last) {
                        break;
                    }
                }
            }
        }
        Dense::from_sorted(&lows).map(Cow::Owned)
    }

    /// Retains the members that are in this set, or, if `inside` is false, those that are not. `members` is in
    /// ascending order, so members of the same node share a lookup.
    fn retain(&self, members: &mut Vec<u64>, inside: bool) {
        match self.0.get() {
            Ref::Page(page) => members.retain(|&m| page.position(m).is_ok() == inside),
            Ref::Boxed(tree) => {
                let (mut entry, mut last) = (None, 0);
                members.retain(|&m| {
                    if entry.is_none() || m > last {
                        (entry, last) = tree.entry_of(m);
                    }
                    entry.is_some_and(|entry| entry.contains(m)) == inside
                });
            }
        }
    }
}
