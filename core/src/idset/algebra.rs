//! Set algebra over any number of sets, node by node, so that no intermediate set is made.
//!
//! `And` and `Diff` go through one set, the smallest or the first, and ask the others about its members. `Or` and `Xor`
//! go through all sets at once: members of pages are merged as far as a node of every set reaches, and a chunk that is
//! dense in any set is combined as containers.

use std::alloc::{Layout, handle_alloc_error};
use std::borrow::Cow;
use std::mem::swap;

use super::builder::Builder;
use super::dense::{self, Dense};
use super::limits::PAGE;
use super::series::Piece;
use super::thin::{Ref, RefMut};
use super::tree::{bounds, split};
use super::{IdSet, SetError};

/// An operation on sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetOp {
    /// The members of all sets.
    And,
    /// The members of any set.
    Or,
    /// The members of an odd number of the sets.
    Xor,
    /// The members of the first set that are in none of the others.
    Diff,
}

impl IdSet {
    /// The result of `op` on `sets`, in its smallest form; without sets it is empty.
    ///
    /// Takes time in proportion to the members of the sets; `And` and `Diff` to those of the smallest and the first.
    pub fn combine(op: SetOp, sets: &[&IdSet]) -> IdSet {
        let mut result = Builder::default();
        let made = run(op, sets, &mut result).and_then(|()| result.finish());
        match made {
            Ok(set) => set,
            Err(SetError::OutOfMemory) => handle_alloc_error(Layout::new::<[u64; PAGE]>()),
            Err(SetError::Payload) => unreachable!("the members of sets ascend"),
        }
    }

    /// The cardinality of [`IdSet::combine`]'s result, for which at most one chunk at a time is made.
    pub fn combine_len(op: SetOp, sets: &[&IdSet]) -> u64 {
        let mut count = Count(0);
        // Counting cannot fail.
        let _ = run(op, sets, &mut count);
        count.0
    }

    /// Adds all members of `other`; how many of them were new.
    pub fn union_with(&mut self, mut other: IdSet) -> u64 {
        let before = self.len();
        if self.free_effort() < other.free_effort() {
            swap(self, &mut other);
        }
        if other.free_effort() > PAGE && other.free_effort() > self.free_effort() / 8 {
            *self = IdSet::combine(SetOp::Or, &[self, &other]);
        } else {
            self.take_in(&other);
        }
        self.len() - before
    }

    /// Adds the members of a set that is small beside this one.
    fn take_in(&mut self, other: &IdSet) {
        for piece in other.pieces(0) {
            match (piece, self.0.get_mut()) {
                (Piece::Dense(key, dense), RefMut::Boxed(tree)) => tree.take_in(key, dense),
                (piece, _) => piece.members().for_each(|m| {
                    self.insert(m);
                }),
            }
        }
    }
}

/// What becomes of a result, which comes in ascending order.
trait Sink {
    /// Some members.
    fn members(&mut self, members: &[u64]) -> Result<(), SetError>;
    /// What `op` makes of these parts of a chunk.
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

/// `And` or `Diff`: keeps those members of `driver` that all of the others have, or none of them.
fn filter(
    op: SetOp,
    driver: &IdSet,
    others: &[&IdSet],
    sink: &mut impl Sink,
) -> Result<(), SetError> {
    let mut members = Vec::new();
    for piece in driver.pieces(0) {
        match piece {
            Piece::Sparse(page) => {
                members.clear();
                members.extend(page.iter());
                for other in others {
                    other.retain(&mut members, op == SetOp::And);
                }
                sink.members(&members)?;
            }
            Piece::Dense(key, dense) => {
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

/// `Or` or `Xor`.
fn merge(op: SetOp, sets: &[&IdSet], sink: &mut impl Sink) -> Result<(), SetError> {
    let mut fronts: Vec<Front<_>> = sets.iter().map(|set| Front::new(set.pieces(0))).collect();
    let mut members = Vec::new();
    loop {
        // The next dense chunk, and how far the members of every set are known.
        let chunk = fronts.iter().filter_map(Front::chunk).min();
        let known = fronts.iter().filter_map(Front::last).min();
        members.clear();
        for front in &mut fronts {
            front.take_members(chunk, known, &mut members);
        }
        if !members.is_empty() {
            reduce(op, &mut members);
            sink.members(&members)?;
        } else if let Some(key) = chunk {
            let parts: Vec<Cow<Dense>> = fronts
                .iter_mut()
                .filter_map(|front| front.take_chunk(key))
                .collect();
            let parts: Vec<&Dense> = parts.iter().map(|part| &**part).collect();
            sink.chunk(op, key, &parts)?;
        } else {
            return Ok(());
        }
    }
}

/// Sorts, and keeps one of each (`Or`) or of each that is there an odd number of times (`Xor`).
fn reduce(op: SetOp, members: &mut Vec<u64>) {
    // They are a few sorted series, which this sort makes use of.
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

/// How far a set has been read.
struct Front<'a, I> {
    pieces: I,
    /// Members of pages that have not been taken, in `at ..`.
    members: Vec<u64>,
    at: usize,
    /// The chunk that comes after them, where they are none.
    dense: Option<(u64, &'a Dense)>,
}

impl<'a, I: Iterator<Item = Piece<'a>>> Front<'a, I> {
    fn new(pieces: I) -> Front<'a, I> {
        let mut front = Front {
            pieces,
            members: Vec::new(),
            at: 0,
            dense: None,
        };
        front.refill();
        front
    }

    /// Reads the next node if there is nothing left of the last.
    fn refill(&mut self) {
        if self.at < self.members.len() || self.dense.is_some() {
            return;
        }
        self.members.clear();
        self.at = 0;
        match self.pieces.next() {
            Some(Piece::Sparse(page)) => self.members.extend(page.iter()),
            Some(Piece::Dense(key, dense)) => self.dense = Some((key, dense)),
            None => {}
        }
    }

    fn chunk(&self) -> Option<u64> {
        self.dense.map(|(key, _)| key)
    }

    fn last(&self) -> Option<u64> {
        self.members.last().copied()
    }

    /// Takes the members that come before the chunk and up to `known`.
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

    /// Takes all members of the chunk `key`, if there are any. All that comes before has been taken.
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
        for piece in self.pieces(first) {
            match piece {
                Piece::Dense(mine, dense) if mine == key => return Some(Cow::Borrowed(dense)),
                Piece::Dense(mine, _) if mine > key => break,
                Piece::Dense(..) => {}
                Piece::Sparse(page) => {
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

    /// Keeps those of these ascending members that are (or are not) in this set. Neighbours are looked up in one node.
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
