//! Set algebra over any number of sets, block by block, so that no intermediate set is made.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::btree_map;

use super::block::{self, Block};
use super::builder::Builder;
use super::compact::{self, Compact};
use super::roaring::Roaring;
use super::{IdSet, Repr};

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
    /// Takes time in proportion to the blocks of the sets; `And` and `Diff` to those of the smallest and the first.
    pub fn combine(op: SetOp, sets: &[&IdSet]) -> IdSet {
        match Work::plan(op, sets) {
            Work::Few(members) if members.len() <= compact::LIMIT => {
                IdSet(Repr::Compact(Compact::from_sorted(&members)))
            }
            Work::Few(members) => IdSet(Repr::Roaring(Box::new(Roaring::from_sorted(
                members.into_iter(),
            )))),
            Work::Many { large, small } => {
                let mut result = Builder::default();
                each_group(op, &operands(&large, &small), |key, blocks| {
                    if let Some((block, run)) = block::merge(op, blocks) {
                        result.append_block(key, block, run);
                    }
                });
                IdSet(result.finish())
            }
        }
    }

    /// The cardinality of [`IdSet::combine`]'s result, for which at most one block at a time is made.
    pub fn combine_len(op: SetOp, sets: &[&IdSet]) -> u64 {
        match Work::plan(op, sets) {
            Work::Few(members) => members.len() as u64,
            Work::Many { large, small } => {
                let mut len = 0;
                each_group(op, &operands(&large, &small), |_, blocks| {
                    len += block::merge_len(op, blocks)
                });
                len
            }
        }
    }
}

/// What is left to do once the small sets are dealt with.
enum Work<'a> {
    /// Nothing: these are the members of the result.
    Few(Vec<u64>),
    /// To combine these, where `small` (always last) stands for all the small sets.
    Many {
        large: Vec<&'a Roaring>,
        small: Option<Roaring>,
    },
}

fn operands<'a>(large: &[&'a Roaring], small: &'a Option<Roaring>) -> Vec<&'a Roaring> {
    large.iter().copied().chain(small).collect()
}

impl<'a> Work<'a> {
    fn plan(op: SetOp, sets: &[&'a IdSet]) -> Work<'a> {
        let Some((first, others)) = sets.split_first() else {
            return Work::Few(Vec::new());
        };
        match (op, &first.0) {
            (SetOp::And, _) => Work::plan_and(sets),
            (SetOp::Diff, Repr::Compact(few)) => Work::Few(
                few.iter()
                    .filter(|&m| !others.iter().any(|set| set.contains(m)))
                    .collect(),
            ),
            (SetOp::Diff, Repr::Roaring(first)) => {
                let (mut large, small) = partition(others);
                large.insert(0, first);
                Work::Many {
                    large,
                    small: merge_small(SetOp::Or, &small),
                }
            }
            (SetOp::Or | SetOp::Xor, _) => {
                let (large, small) = partition(sets);
                if large.is_empty() {
                    return Work::Few(members_of(op, &small));
                }
                Work::Many {
                    large,
                    small: merge_small(op, &small),
                }
            }
        }
    }

    /// The intersection with a small set is found by looking up its members.
    fn plan_and(sets: &[&'a IdSet]) -> Work<'a> {
        let (mut large, small) = partition(sets);
        match small.iter().min_by_key(|few| few.len()) {
            Some(few) => Work::Few(
                few.iter()
                    .filter(|&m| sets.iter().all(|set| set.contains(m)))
                    .collect(),
            ),
            None => {
                large.sort_by_key(|set| set.blocks.len());
                Work::Many { large, small: None }
            }
        }
    }
}

fn partition<'a>(sets: &[&'a IdSet]) -> (Vec<&'a Roaring>, Vec<&'a Compact>) {
    let (mut large, mut small) = (Vec::new(), Vec::new());
    for set in sets {
        match &set.0 {
            Repr::Roaring(r) => large.push(&**r),
            Repr::Compact(c) => small.push(c),
        }
    }
    (large, small)
}

/// The union, or with `Xor` what is in an odd number, of small sets.
fn members_of(op: SetOp, small: &[&Compact]) -> Vec<u64> {
    let mut members: Vec<u64> = small.iter().flat_map(|few| few.iter()).collect();
    members.sort_unstable();
    if op == SetOp::Xor {
        let odd = members
            .chunk_by(|a, b| a == b)
            .filter(|same| same.len() % 2 == 1);
        return odd.map(|same| same[0]).collect();
    }
    members.dedup();
    members
}

fn merge_small(op: SetOp, small: &[&Compact]) -> Option<Roaring> {
    let members = members_of(op, small);
    (!members.is_empty()).then(|| Roaring::from_sorted(members.into_iter()))
}

/// Calls `f` with the blocks of each key that can have a result, in ascending order of the keys.
fn each_group<'a>(op: SetOp, sets: &[&'a Roaring], mut f: impl FnMut(u64, &[&'a Block])) {
    let Some((first, others)) = sets.split_first() else {
        return;
    };
    if matches!(op, SetOp::Or | SetOp::Xor) {
        return each_key(sets, f);
    }
    let mut others: Vec<Finger> = others.iter().map(|set| Finger::new(set)).collect();
    let mut group = Vec::with_capacity(sets.len());
    for (&key, block) in &first.blocks {
        group.clear();
        group.push(block);
        group.extend(others.iter_mut().filter_map(|finger| finger.find(key)));
        if op == SetOp::Diff || group.len() == sets.len() {
            f(key, &group);
        }
    }
}

/// Calls `f` with all blocks of each key.
fn each_key<'a>(sets: &[&'a Roaring], mut f: impl FnMut(u64, &[&'a Block])) {
    let mut iters: Vec<_> = sets.iter().map(|set| set.blocks.iter()).collect();
    let mut heads: Vec<Option<&Block>> = vec![None; sets.len()];
    let mut next = BinaryHeap::with_capacity(sets.len());
    let mut group = Vec::with_capacity(sets.len());
    let mut advance = |i: usize, heads: &mut Vec<Option<&'a Block>>, next: &mut BinaryHeap<_>| {
        if let Some((&key, block)) = iters[i].next() {
            heads[i] = Some(block);
            next.push(Reverse((key, i)));
        }
    };
    for i in 0..sets.len() {
        advance(i, &mut heads, &mut next);
    }
    while let Some(&Reverse((key, _))) = next.peek() {
        group.clear();
        while let Some(&Reverse((same, i))) = next.peek()
            && same == key
        {
            next.pop();
            group.extend(heads[i].take());
            advance(i, &mut heads, &mut next);
        }
        f(key, &group);
    }
}

/// Finds blocks of ascending keys: a few steps ahead if that is enough, else from the root.
struct Finger<'a> {
    set: &'a Roaring,
    ahead: btree_map::Range<'a, u64, Block>,
    head: Option<(&'a u64, &'a Block)>,
}

impl<'a> Finger<'a> {
    const STEPS: usize = 8;

    fn new(set: &'a Roaring) -> Finger<'a> {
        let mut ahead = set.blocks.range(..);
        Finger {
            set,
            head: ahead.next(),
            ahead,
        }
    }

    fn find(&mut self, wanted: u64) -> Option<&'a Block> {
        let mut steps = 0;
        while self.head.is_some_and(|(&key, _)| key < wanted) {
            if steps == Finger::STEPS {
                self.ahead = self.set.blocks.range(wanted..);
            }
            self.head = self.ahead.next();
            steps += 1;
        }
        self.head
            .filter(|&(&key, _)| key == wanted)
            .map(|(_, block)| block)
    }
}
