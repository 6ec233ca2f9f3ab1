//! `combine` and `combine_len` agree with a simple model and obey the laws of sets, for operands of every encoding.

mod idset_support;

use std::collections::BTreeSet;

use countint_core::idset::{COMPACT_MAX, IdSet, SetOp};
use idset_support::*;
use proptest::collection::vec;
use proptest::prelude::*;

const OPS: [SetOp; 4] = [SetOp::And, SetOp::Or, SetOp::Xor, SetOp::Diff];

fn model_of(op: SetOp, sets: &[&BTreeSet<u64>]) -> BTreeSet<u64> {
    let Some((first, others)) = sets.split_first() else {
        return BTreeSet::new();
    };
    others
        .iter()
        .fold((*first).clone(), |left, right| match op {
            SetOp::And => &left & right,
            SetOp::Or => &left | right,
            SetOp::Xor => &left ^ right,
            SetOp::Diff => &left - right,
        })
}

fn combine(op: SetOp, sets: &[&IdSet]) -> IdSet {
    let result = IdSet::combine(op, sets);
    result.validate().unwrap();
    assert_eq!(
        result.encoding() == "compact",
        result.len() <= COMPACT_MAX as u64
    );
    assert_eq!(IdSet::combine_len(op, sets), result.len(), "{op:?}");
    result
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn operations_agree_with_the_model(operands in vec(sets(), 0..6), again in any::<prop::sample::Index>()) {
        let mut sets: Vec<&IdSet> = operands.iter().map(|(set, _)| set).collect();
        let mut models: Vec<&BTreeSet<u64>> = operands.iter().map(|(_, model)| model).collect();
        // The same set twice, since a command can name a key more than once.
        if !sets.is_empty() {
            sets.push(sets[again.index(operands.len())]);
            models.push(models[again.index(operands.len())]);
        }
        for op in OPS {
            for n in 0..=sets.len() {
                assert_same(&combine(op, &sets[..n]), &model_of(op, &models[..n]));
            }
        }
    }

    #[test]
    fn operations_obey_the_laws_of_sets((a, _) in sets(), (b, _) in sets(), (c, _) in sets()) {
        let [and, or, xor, diff] = OPS.map(|op| move |x: &IdSet, y: &IdSet| combine(op, &[x, y]));
        let empty = IdSet::new();
        prop_assert_eq!(and(&a, &b), and(&b, &a));
        prop_assert_eq!(or(&a, &b), or(&b, &a));
        prop_assert_eq!(xor(&a, &b), xor(&b, &a));
        prop_assert_eq!(or(&a, &or(&b, &c)), or(&or(&a, &b), &c));
        prop_assert_eq!(and(&a, &and(&b, &c)), and(&and(&a, &b), &c));
        prop_assert_eq!(xor(&a, &xor(&b, &c)), xor(&xor(&a, &b), &c));
        prop_assert_eq!(and(&a, &or(&b, &c)), or(&and(&a, &b), &and(&a, &c)));
        prop_assert_eq!(diff(&a, &or(&b, &c)), and(&diff(&a, &b), &diff(&a, &c)));
        prop_assert_eq!(or(&and(&a, &b), &diff(&a, &b)), a.clone());
        prop_assert_eq!(xor(&a, &b), diff(&or(&a, &b), &and(&a, &b)));
        prop_assert_eq!(or(&a, &a), a.clone());
        prop_assert_eq!(and(&a, &a), a.clone());
        prop_assert_eq!(xor(&a, &a), empty.clone());
        prop_assert_eq!(diff(&a, &empty), a.clone());
        prop_assert_eq!(or(&a, &empty), a.clone());
        prop_assert_eq!(and(&a, &empty), empty);
    }

    #[test]
    fn union_in_place_agrees_with_the_model((mut a, mut model) in sets(), (b, theirs) in sets()) {
        let new = theirs.difference(&model).count() as u64;
        prop_assert_eq!(a.union_with(b.clone()), new);
        prop_assert_eq!(a.union_with(b), 0);
        model.extend(theirs);
        assert_same(&a, &model);
    }
}

/// Sets of one member per chunk, far apart in some of them, so that the lookups of an intersection skip nodes.
#[test]
fn operations_on_sparse_sets_of_different_sizes_agree_with_the_model() {
    let every = |step: u64| -> BTreeSet<u64> {
        (0..3_000 / step)
            .map(|i| (i * step) << 20 | step.min(2))
            .collect()
    };
    let models = [every(1), every(2), every(17), every(3)];
    let sets: Vec<IdSet> = models
        .iter()
        .map(|model| model.iter().copied().collect())
        .collect();
    for op in OPS {
        for i in 0..4 {
            for j in 0..4 {
                assert_same(
                    &combine(op, &[&sets[i], &sets[j]]),
                    &model_of(op, &[&models[i], &models[j]]),
                );
            }
        }
        assert_same(
            &combine(op, &sets.iter().collect::<Vec<_>>()),
            &model_of(op, &models.iter().collect::<Vec<_>>()),
        );
    }
}

/// A result of consecutive members becomes runs: 2^20 members in a few bytes.
#[test]
fn results_have_the_smallest_encoding() {
    let evens: IdSet = (0..1 << 19).map(|i| i * 2).collect();
    let odds: IdSet = (0..1 << 19).map(|i| i * 2 + 1).collect();
    let all = combine(SetOp::Or, &[&evens, &odds]);
    assert_eq!(all.len(), 1 << 20);
    assert!(all.export().len() < 300, "{} bytes", all.export().len());
    assert!(evens.export().len() > 100_000);
}
