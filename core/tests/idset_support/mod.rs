//! Shared by the tests of `idset`: generators of sets in every encoding, and comparison with a model.
// Each test binary uses only a part of this module.
#![allow(dead_code)]

use std::collections::BTreeSet;

use countint_core::idset::IdSet;
use proptest::collection::vec;
use proptest::prelude::*;

/// Failing cases are printed but not written to a file, since they have thousands of members.
pub fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// A member: close to others, far apart, in a run, in one of several high halves, or at a bound.
pub fn member() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0u64..400,
        2 => 65_000u64..66_000,
        2 => any::<u32>().prop_map(u64::from),
        2 => snowflake(),
        2 => any::<u64>(),
        1 => (0u64..5, 0u64..300).prop_map(|(half, low)| half << 32 | low),
        1 => prop_oneof![Just(0), Just(u64::MAX), Just(u64::from(u32::MAX)), Just(1 << 32), Just(65_535), Just(65_536)],
    ]
}

/// A snowflake: a millisecond, a worker and a sequence number.
fn snowflake() -> impl Strategy<Value = u64> {
    (1_700_000_000_000u64..1_700_000_100_000, 0u64..8, 0u64..4)
        .prop_map(|(ms, worker, seq)| (ms - 1_288_834_974_657) << 22 | worker << 12 | seq)
}

/// A part of the members of a set.
#[derive(Debug, Clone)]
pub enum Part {
    List(Vec<u64>),
    /// `(first, step, count)`: dense, sparse or a run.
    Steps(u64, u64, u64),
}

impl Part {
    pub fn members(&self) -> Vec<u64> {
        match self {
            Part::List(members) => members.clone(),
            Part::Steps(first, step, n) => (0..*n)
                .filter_map(|i| first.checked_add(i * step))
                .collect(),
        }
    }
}

/// Few or many members and containers of each kind, around the limits of the encodings and of array containers.
pub fn part() -> impl Strategy<Value = Part> {
    let first = prop_oneof![
        Just(0),
        Just(65_530),
        Just((1 << 32) - 3),
        Just(u64::MAX - 9_000),
        member()
    ];
    let number = prop_oneof![60u64..68, 126u64..131, 4_090u64..4_100, 8_000u64..9_000];
    prop_oneof![
        3 => vec(member(), 0..40).prop_map(Part::List),
        2 => vec(snowflake(), 100..400).prop_map(Part::List),
        2 => vec(any::<u16>().prop_map(|m| u64::from(m) * 3), 100..1_000).prop_map(Part::List),
        3 => (first, 1u64..4, number).prop_map(|(first, step, n)| Part::Steps(first, step, n)),
        1 => (0u64..1 << 20, 1u64..3).prop_map(|(first, step)| Part::Steps(first, step, 70_000)),
    ]
}

/// A set and its model. Half of the sets have runs, which only set operations and imports create.
pub fn sets() -> impl Strategy<Value = (IdSet, BTreeSet<u64>)> {
    (vec(part(), 0..3), any::<bool>()).prop_map(|(parts, runs)| {
        let model: BTreeSet<u64> = parts.iter().flat_map(Part::members).collect();
        let set: IdSet = model.iter().copied().collect();
        (if runs { with_runs(&set) } else { set }, model)
    })
}

/// The same members with every container in its smallest encoding, including runs.
pub fn with_runs(set: &IdSet) -> IdSet {
    use countint_core::idset::SetOp;
    let set = IdSet::combine(SetOp::Or, &[set, set]);
    set.validate().unwrap();
    set
}

/// Asserts that `set` is valid and has exactly the members of `model`.
pub fn assert_same(set: &IdSet, model: &BTreeSet<u64>) {
    set.validate().unwrap();
    assert_eq!(set.len(), model.len() as u64);
    assert!(
        set.iter().eq(model.iter().copied()),
        "{set:?} is not {:?}...",
        model.iter().take(20).collect::<Vec<_>>()
    );
}
