//! Chunks of runs, including full chunks and runs at the ends of a chunk, behave as CRoaring does with the same intervals.
//! The model is not a `BTreeSet`, because whole chunks of members are added and removed.

mod idset_support;

use countint_core::idset::{IdSet, SetOp};
use croaring::{Portable, Treemap};
use idset_support::cases;
use proptest::collection::vec;
use proptest::prelude::*;

/// A position in a chunk, mostly an error-prone one.
fn place() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => Just(0u64),
        2 => Just(65_535),
        2 => prop::sample::select(vec![1u64, 63, 64, 127, 128, 4_095, 4_096, 65_471, 65_472, 65_534]),
        4 => 0u64..65_536,
    ]
}

/// An id in the first chunks of two high halves or in the last chunks.
fn id() -> impl Strategy<Value = u64> {
    let block = prop::sample::select(vec![0u64, 1, 2, 0xffff, 0x1_0000, 0xffff_ffff_ffff]);
    (block, place()).prop_map(|(block, place)| block << 16 | place)
}

/// `first ..= last`, within one chunk or over a few.
fn interval() -> impl Strategy<Value = (u64, u64)> {
    (id(), 0u64..3, place()).prop_map(|(first, blocks, place)| {
        let last = ((first >> 16).saturating_add(blocks).min((1 << 48) - 1)) << 16 | place;
        (first.min(last), first.max(last))
    })
}

/// Intervals that are added, then some that are removed. Short ones leave arrays, long ones bitmaps and runs.
fn treemap() -> impl Strategy<Value = Treemap> {
    let many = (id(), 1u64..40, 2u64..50, 1u64..4);
    (
        vec(interval(), 0..4),
        vec(interval(), 0..3),
        vec(many, 0..2),
        any::<bool>(),
    )
        .prop_map(|(add, remove, many, runs)| {
            let mut all = Treemap::new();
            add.into_iter()
                .for_each(|(first, last)| all.add_range(first..=last));
            remove
                .into_iter()
                .for_each(|(first, last)| all.remove_range(first..=last));
            for (first, n, gap, len) in many {
                for i in 0..n * 60 {
                    let from = first.saturating_add(i * (gap + len));
                    all.add_range(from..=from.saturating_add(len - 1));
                }
            }
            if runs {
                all.run_optimize()
            } else {
                all.remove_run_compression()
            };
            all
        })
}

fn ours(theirs: &Treemap) -> IdSet {
    let set = IdSet::from_portable(&theirs.serialize::<Portable>()).unwrap();
    set.validate().unwrap();
    set
}

fn assert_equal(set: &IdSet, model: &Treemap) {
    set.validate().unwrap();
    assert_eq!(set.len(), model.cardinality());
    let exported = Treemap::try_deserialize::<Portable>(&set.export()).unwrap();
    assert!(exported == *model, "{set:?}");
}

fn combined(op: SetOp, left: &Treemap, right: &Treemap) -> Treemap {
    match op {
        SetOp::And => left.and(right),
        SetOp::Or => left.or(right),
        SetOp::Xor => left.xor(right),
        SetOp::Diff => left.andnot(right),
    }
}

/// The members from `from` on or down from it, by CRoaring's rank and select.
fn scanned(model: &Treemap, from: u64, limit: usize) -> [Vec<u64>; 2] {
    let upto = model.rank(from);
    let below = upto - u64::from(model.contains(from));
    let up = (below..)
        .map_while(|rank| model.select(rank))
        .take(limit)
        .collect();
    let down = (0..upto)
        .rev()
        .filter_map(|rank| model.select(rank))
        .take(limit)
        .collect();
    [up, down]
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn queries_agree_with_croaring(model in treemap(), probes in vec((id(), id(), 1usize..300), 8)) {
        let set = ours(&model);
        assert_equal(&set, &model);
        prop_assert_eq!((set.min(), set.max()), (model.minimum(), model.maximum()));
        for (m, other, limit) in probes {
            prop_assert_eq!(set.contains(m), model.contains(m));
            prop_assert_eq!(set.rank(m), model.rank(m) - u64::from(model.contains(m)));
            let rank = model.rank(m).min(other);
            prop_assert_eq!(set.select(rank), model.select(rank));
            let (min, max) = (m.min(other), m.max(other));
            let below = min.checked_sub(1).map_or(0, |less| model.rank(less));
            prop_assert_eq!(set.count(min, max), model.rank(max) - below);
            let (mut up, mut down) = (Vec::new(), Vec::new());
            set.scan(m, limit, &mut up);
            set.scan_rev(m, limit, &mut down);
            prop_assert_eq!([up, down], scanned(&model, m, limit));
            let mut part = model.clone();
            if min > 0 {
                part.remove_range(..min);
            }
            if max < u64::MAX {
                part.remove_range(max + 1..);
            }
            assert_equal(&IdSet::from_portable(&set.export_range(min, max)).unwrap(), &part);
        }
    }

    #[test]
    fn iteration_agrees_with_croaring(model in treemap()) {
        let (set, all) = (ours(&model), model.to_vec());
        prop_assert!(set.iter().eq(all.iter().copied()));
        let mut out = Vec::new();
        set.scan(0, usize::MAX, &mut out);
        prop_assert!(out == all);
        out.clear();
        set.scan_rev(u64::MAX, usize::MAX, &mut out);
        prop_assert!(out.into_iter().rev().eq(all));
    }

    #[test]
    fn operations_agree_with_croaring(models in vec(treemap(), 1..4)) {
        let sets: Vec<IdSet> = models.iter().map(ours).collect();
        for op in [SetOp::And, SetOp::Or, SetOp::Xor, SetOp::Diff] {
            for n in 1..=sets.len() {
                let operands: Vec<&IdSet> = sets[..n].iter().collect();
                let model = models[1..n].iter().fold(models[0].clone(), |left, right| combined(op, &left, right));
                prop_assert_eq!(IdSet::combine_len(op, &operands), model.cardinality());
                assert_equal(&IdSet::combine(op, &operands), &model);
            }
        }
        let mut union = sets[0].clone();
        for (set, model) in sets.iter().zip(&models) {
            let before = union.len();
            prop_assert_eq!(before + union.union_with(set.clone()), union.len());
            prop_assert_eq!(IdSet::combine_len(SetOp::Diff, &[set, &union]), 0);
            prop_assert!(union.len() >= model.cardinality());
        }
        assert_equal(&union, &models.iter().fold(Treemap::new(), |all, model| all.or(model)));
    }

    #[test]
    fn changes_agree_with_croaring(mut model in treemap(), calls in vec((id(), 0u8..3), 1..20)) {
        let mut set = ours(&model);
        for (m, call) in calls {
            match call {
                0 => prop_assert_eq!(set.insert(m), model.add_checked(m)),
                1 => prop_assert_eq!(set.remove(m), model.remove_checked(m)),
                _ => _ = set.defrag_step(m),
            }
            assert_equal(&set, &model);
        }
    }

    #[test]
    fn saved_runs_load_again(model in treemap()) {
        let set = ours(&model);
        let mut loader = countint_core::idset::BlobLoader::new(set.len());
        set.save_blobs(&mut |blob| loader.push(blob).unwrap());
        if !set.is_empty() {
            assert_equal(&loader.finish().unwrap(), &model);
        }
    }
}
