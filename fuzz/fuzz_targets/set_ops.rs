//! Any sequence of calls on two sets agrees with `BTreeSet`.
#![no_main]

use std::collections::BTreeSet;

use arbitrary::Arbitrary;
use countint_core::idset::{IdSet, SetOp};
use libfuzzer_sys::fuzz_target;

/// Ids in a few blocks, so that sets overlap.
#[derive(Arbitrary, Debug, Clone, Copy)]
enum Member {
    Near(u8),
    Dense(u16),
    Blocks(u8, u8),
    Halves(u8, u16),
    Any(u64),
    End(u8),
}

impl Member {
    fn id(self) -> u64 {
        match self {
            Member::Near(m) => m.into(),
            Member::Dense(m) => m.into(),
            Member::Blocks(block, m) => u64::from(block) << 16 | u64::from(m),
            Member::Halves(half, m) => u64::from(half) << 32 | u64::from(m),
            Member::Any(m) => m,
            Member::End(m) => u64::MAX - u64::from(m),
        }
    }
}

#[derive(Arbitrary, Debug)]
enum Call {
    Insert(Member),
    Remove(Member),
    InsertSteps(Member, u8, u16),
    RemoveSteps(Member, u8, u16),
    Swap,
    Clone,
    Union,
    Combine(u8, u8),
    Reload,
    Reimport,
    Part(Member, Member),
    Defrag(Member),
    Query(Member, Member, u16),
}

/// `n` members from `first` on, `step` apart.
fn steps(first: Member, step: u8, n: u16) -> impl Iterator<Item = u64> {
    (0..u64::from(n % 5_000)).map(move |i| first.id().wrapping_add(i * u64::from(step)))
}

#[derive(Default, Clone)]
struct Pair {
    set: IdSet,
    model: BTreeSet<u64>,
}

impl Pair {
    fn check(&self) {
        self.set.validate().expect("valid");
        assert_eq!(self.set.len(), self.model.len() as u64);
    }

    fn check_queries(&self, m: u64, other: u64, limit: usize) {
        let (set, model) = (&self.set, &self.model);
        assert_eq!(set.contains(m), model.contains(&m));
        assert_eq!(
            (set.min(), set.max()),
            (model.first().copied(), model.last().copied())
        );
        let smaller = model.range(..m).count();
        assert_eq!(set.rank(m), smaller as u64);
        assert_eq!(set.select(smaller as u64), model.range(m..).next().copied());
        let (min, max) = (m.min(other), m.max(other));
        assert_eq!(set.count(min, max), model.range(min..=max).count() as u64);
        let (mut up, mut down) = (Vec::new(), Vec::new());
        set.scan(m, limit, &mut up);
        set.scan_rev(m, limit, &mut down);
        assert!(up.iter().eq(model.range(m..).take(limit)));
        assert!(down.iter().eq(model.range(..=m).rev().take(limit)));
    }

    fn reload(&self) -> IdSet {
        let mut loader = countint_core::idset::BlobLoader::new(self.set.len());
        self.set
            .save_blobs(&mut |blob| loader.push(blob).expect("a saved blob is valid"));
        if self.set.is_empty() {
            IdSet::new()
        } else {
            loader.finish().expect("all blobs were loaded")
        }
    }
}

fn combined(op: SetOp, a: &BTreeSet<u64>, b: &BTreeSet<u64>) -> BTreeSet<u64> {
    match op {
        SetOp::And => a & b,
        SetOp::Or => a | b,
        SetOp::Xor => a ^ b,
        SetOp::Diff => a - b,
    }
}

fn apply(call: Call, a: &mut Pair, b: &mut Pair) {
    match call {
        Call::Insert(m) => assert_eq!(a.set.insert(m.id()), a.model.insert(m.id())),
        Call::Remove(m) => assert_eq!(a.set.remove(m.id()), a.model.remove(&m.id())),
        Call::InsertSteps(first, step, n) => {
            steps(first, step, n).for_each(|m| assert_eq!(a.set.insert(m), a.model.insert(m)));
        }
        Call::RemoveSteps(first, step, n) => {
            steps(first, step, n).for_each(|m| assert_eq!(a.set.remove(m), a.model.remove(&m)));
        }
        Call::Swap => std::mem::swap(a, b),
        Call::Clone => *b = a.clone(),
        Call::Union => {
            let new = b.model.difference(&a.model).count() as u64;
            assert_eq!(a.set.union_with(b.set.clone()), new);
            a.model.extend(&b.model);
        }
        Call::Combine(op, again) => {
            let op = [SetOp::And, SetOp::Or, SetOp::Xor, SetOp::Diff][usize::from(op % 4)];
            let (mut sets, mut model) = (vec![&a.set, &b.set], combined(op, &a.model, &b.model));
            if again % 2 == 1 {
                sets.push(&a.set);
                model = combined(op, &model, &a.model);
            }
            assert_eq!(IdSet::combine_len(op, &sets), model.len() as u64);
            a.set = IdSet::combine(op, &sets);
            a.model = model;
        }
        Call::Reload => a.set = a.reload(),
        Call::Reimport => {
            a.set = IdSet::from_portable(&a.set.export()).expect("the export is valid")
        }
        Call::Part(min, max) => {
            let (min, max) = (min.id(), max.id());
            a.set =
                IdSet::from_portable(&a.set.export_range(min, max)).expect("the export is valid");
            a.model.retain(|m| (min..=max).contains(m));
        }
        Call::Defrag(cursor) => {
            let next = a.set.defrag_step(cursor.id());
            assert!(next.is_none_or(|next| next > cursor.id()));
        }
        Call::Query(m, other, limit) => a.check_queries(m.id(), other.id(), limit.into()),
    }
    a.check();
}

fuzz_target!(|calls: Vec<Call>| {
    let (mut a, mut b) = (Pair::default(), Pair::default());
    for call in calls.into_iter().take(60) {
        apply(call, &mut a, &mut b);
    }
    for pair in [a, b] {
        assert!(pair.set.iter().eq(pair.model.iter().copied()));
    }
});
