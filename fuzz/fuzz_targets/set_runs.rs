//! Sets of long intervals, with run, bitmap and array containers, agree with CRoaring.
#![no_main]

use arbitrary::Arbitrary;
use countint_core::idset::{IdSet, SetOp};
use croaring::{Portable, Treemap};
use libfuzzer_sys::fuzz_target;

/// An id in one of six blocks: on both sides of the boundary of a high half, and the last block.
#[derive(Arbitrary, Debug, Clone, Copy)]
struct Id {
    block: u8,
    place: Place,
}

#[derive(Arbitrary, Debug, Clone, Copy)]
enum Place {
    First,
    Last,
    At(u16),
}

impl Id {
    fn id(self) -> u64 {
        let block = [0, 1, 2, 0xffff, 0x1_0000, 0xffff_ffff_ffff][usize::from(self.block % 6)];
        let place = match self.place {
            Place::First => 0,
            Place::Last => u16::MAX,
            Place::At(place) => place,
        };
        block << 16 | u64::from(place)
    }
}

#[derive(Arbitrary, Debug)]
enum Step {
    /// From an id to a place in a block, given by its distance.
    Add(Id, u8, Place),
    Remove(Id, u8, Place),
    /// Short intervals with gaps.
    Comb {
        first: Id,
        n: u16,
        len: u8,
        gap: u8,
    },
    Optimize,
    Expand,
}

#[derive(Arbitrary, Debug)]
enum Call {
    Insert(Id),
    Remove(Id),
    Combine(u8, bool),
    Union,
    Swap,
    Reload,
    Defrag(Id),
    Query(Id, Id, u8),
}

fn range(first: Id, blocks: u8, place: Place) -> (u64, u64) {
    let first = first.id();
    let last = Id { block: 0, place }.id()
        | (first >> 16)
            .saturating_add((blocks % 4).into())
            .min((1 << 48) - 1)
            << 16;
    (first.min(last), first.max(last))
}

fn treemap(steps: Vec<Step>) -> Treemap {
    let mut all = Treemap::new();
    for step in steps.into_iter().take(12) {
        match step {
            Step::Add(first, blocks, place) => {
                let (first, last) = range(first, blocks, place);
                all.add_range(first..=last);
            }
            Step::Remove(first, blocks, place) => {
                let (first, last) = range(first, blocks, place);
                all.remove_range(first..=last);
            }
            Step::Comb { first, n, len, gap } => {
                let (len, gap) = (u64::from(len) + 1, u64::from(gap) + 1);
                for i in 0..u64::from(n % 600) {
                    let from = first.id().saturating_add(i * (len + gap));
                    all.add_range(from..=from.saturating_add(len - 1));
                }
            }
            Step::Optimize => _ = all.run_optimize(),
            Step::Expand => _ = all.remove_run_compression(),
        }
    }
    all
}

struct Pair {
    set: IdSet,
    model: Treemap,
}

impl Pair {
    fn new(steps: Vec<Step>) -> Pair {
        let model = treemap(steps);
        let set = IdSet::from_portable(&model.serialize::<Portable>()).expect("CRoaring's export");
        Pair { set, model }
    }

    fn check(&self) {
        self.set.validate().expect("valid");
        let exported =
            Treemap::try_deserialize::<Portable>(&self.set.export()).expect("our export");
        assert!(exported == self.model);
        assert_eq!(self.set.len(), self.model.cardinality());
    }

    fn check_queries(&self, m: u64, other: u64, limit: usize) {
        let (set, model) = (&self.set, &self.model);
        assert_eq!(set.contains(m), model.contains(m));
        let upto = model.rank(m);
        let below = upto - u64::from(model.contains(m));
        assert_eq!(set.rank(m), below);
        assert_eq!(set.select(below), model.select(below));
        let (min, max) = (m.min(other), m.max(other));
        let before = min.checked_sub(1).map_or(0, |less| model.rank(less));
        assert_eq!(set.count(min, max), model.rank(max) - before);
        let (mut up, mut down) = (Vec::new(), Vec::new());
        set.scan(m, limit, &mut up);
        set.scan_rev(m, limit, &mut down);
        assert!(
            (below..)
                .map_while(|rank| model.select(rank))
                .take(limit)
                .eq(up)
        );
        assert!(
            (0..upto)
                .rev()
                .filter_map(|rank| model.select(rank))
                .take(limit)
                .eq(down)
        );
    }

    fn reload(&mut self) {
        let mut loader = countint_core::idset::BlobLoader::new(self.set.len());
        self.set
            .save_blobs(&mut |blob| loader.push(blob).expect("a saved blob is valid"));
        if !self.set.is_empty() {
            self.set = loader.finish().expect("all blobs were loaded");
        }
    }
}

fn combined(op: SetOp, left: &Treemap, right: &Treemap) -> Treemap {
    match op {
        SetOp::And => left.and(right),
        SetOp::Or => left.or(right),
        SetOp::Xor => left.xor(right),
        SetOp::Diff => left.andnot(right),
    }
}

fn apply(call: Call, a: &mut Pair, b: &mut Pair) {
    match call {
        Call::Insert(m) => assert_eq!(a.set.insert(m.id()), a.model.add_checked(m.id())),
        Call::Remove(m) => assert_eq!(a.set.remove(m.id()), a.model.remove_checked(m.id())),
        Call::Combine(op, again) => {
            let op = [SetOp::And, SetOp::Or, SetOp::Xor, SetOp::Diff][usize::from(op % 4)];
            let (mut sets, mut model) = (vec![&a.set, &b.set], combined(op, &a.model, &b.model));
            if again {
                sets.push(&a.set);
                model = combined(op, &model, &a.model);
            }
            assert_eq!(IdSet::combine_len(op, &sets), model.cardinality());
            a.set = IdSet::combine(op, &sets);
            a.model = model;
        }
        Call::Union => {
            let before = a.set.len();
            let new = a.set.union_with(b.set.clone());
            a.model.or_inplace(&b.model);
            assert_eq!(before + new, a.set.len());
        }
        Call::Swap => std::mem::swap(a, b),
        Call::Reload => a.reload(),
        Call::Defrag(cursor) => _ = a.set.defrag_step(cursor.id()),
        Call::Query(m, other, limit) => a.check_queries(m.id(), other.id(), limit.into()),
    }
    a.check();
}

fuzz_target!(|input: (Vec<Step>, Vec<Step>, Vec<Call>)| {
    let (first, second, calls) = input;
    let (mut a, mut b) = (Pair::new(first), Pair::new(second));
    a.check();
    b.check();
    for call in calls.into_iter().take(20) {
        apply(call, &mut a, &mut b);
    }
});
