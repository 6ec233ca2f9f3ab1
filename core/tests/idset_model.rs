//! An `IdSet` behaves as a `BTreeSet<u64>`, at every bound and for any sequence of calls.

mod idset_support;

use std::collections::BTreeSet;

use countint_core::idset::{COMPACT_MAX, COMPACT_SHRINK, IdSet};
use idset_support::*;
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Call {
    Insert(u64),
    Remove(u64),
    /// Removes or adds many adjacent members, to cross the limits of the encodings.
    RemovePart(Part),
    InsertPart(Part),
    Union(Part),
    Defrag(u64),
    Runs,
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        6 => member().prop_map(Call::Insert),
        6 => member().prop_map(Call::Remove),
        3 => part().prop_map(Call::InsertPart),
        3 => part().prop_map(Call::RemovePart),
        2 => part().prop_map(Call::Union),
        1 => member().prop_map(Call::Defrag),
        1 => Just(Call::Runs),
    ]
}

fn apply(call: &Call, set: &mut IdSet, model: &mut BTreeSet<u64>) {
    match call {
        Call::Insert(m) => assert_eq!(set.insert(*m), model.insert(*m)),
        Call::Remove(m) => assert_eq!(set.remove(*m), model.remove(m)),
        Call::InsertPart(part) => {
            for m in part.members() {
                assert_eq!(set.insert(m), model.insert(m));
            }
        }
        Call::RemovePart(part) => {
            for m in part.members() {
                assert_eq!(set.remove(m), model.remove(&m));
            }
        }
        Call::Union(part) => {
            let other: IdSet = part.members().into_iter().collect();
            let new = part
                .members()
                .into_iter()
                .filter(|&m| model.insert(m))
                .count();
            assert_eq!(set.union_with(with_runs(&other)), new as u64);
        }
        Call::Defrag(cursor) => {
            let next = set.defrag_step(*cursor);
            assert!(next.is_none_or(|next| next > *cursor));
        }
        Call::Runs => *set = with_runs(set),
    }
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn any_sequence_of_calls_behaves_as_the_model(calls in vec(call(), 1..40)) {
        let (mut set, mut model) = (IdSet::new(), BTreeSet::new());
        for call in &calls {
            apply(call, &mut set, &mut model);
            set.validate().unwrap();
        }
        assert_same(&set, &model);
        for m in model.iter().copied().collect::<Vec<_>>() {
            assert!(set.contains(m) && set.remove(m));
        }
        assert_same(&set, &BTreeSet::new());
        assert_eq!(set.encoding(), "compact");
    }

    #[test]
    fn order_agrees_with_the_model((set, model) in sets(), probes in vec(member(), 1..20), limit in 0usize..300) {
        let sorted: Vec<u64> = model.iter().copied().collect();
        assert_eq!(set.min(), sorted.first().copied());
        assert_eq!(set.max(), sorted.last().copied());
        for (i, &m) in probes.iter().chain(sorted.iter().step_by(sorted.len() / 7 + 1)).enumerate() {
            let smaller = sorted.partition_point(|&x| x < m);
            assert_eq!(set.contains(m), model.contains(&m));
            assert_eq!(set.rank(m), smaller as u64);
            let nth = probes[0] as usize % (sorted.len() + 1);
            assert_eq!(set.select(nth as u64), sorted.get(nth).copied());
            assert_eq!(set.select(smaller as u64), sorted.get(smaller).copied());
            let other = probes[i % probes.len()];
            let (min, max) = (m.min(other), m.max(other));
            assert_eq!(set.count(min, max), model.range(min..=max).count() as u64);
            assert_eq!(set.count(max, min), if min == max { u64::from(model.contains(&m)) } else { 0 });
            let mut up = vec![7];
            set.scan(m, limit, &mut up);
            assert!(up.iter().skip(1).eq(model.range(m..).take(limit)));
            assert_eq!(up[0], 7);
            let mut down = vec![7];
            set.scan_rev(m, limit, &mut down);
            assert!(down.iter().skip(1).eq(model.range(..=m).rev().take(limit)));
        }
        assert_eq!(set.select(sorted.len() as u64), None);
        assert_eq!(set.select(u64::MAX), None);
    }

    #[test]
    fn equality_and_clones_do_not_depend_on_the_encoding((set, model) in sets()) {
        let runs = with_runs(&set);
        assert_eq!(runs, set);
        assert_eq!(set.clone(), set);
        let mut larger = set.clone();
        if larger.insert(model.len() as u64 * 3 + 77) {
            assert_ne!(larger, set);
        }
    }

    #[test]
    fn defragmentation_visits_everything_and_changes_nothing((set, model) in sets()) {
        let mut moved = set.clone();
        let (mut cursor, mut steps) = (Some(0), 0);
        while let Some(at) = cursor {
            cursor = moved.defrag_step(at);
            assert!(cursor.is_none_or(|next| next > at));
            steps += 1;
        }
        // A step moves at most one node.
        let max_steps = if set.encoding() == "compact" { 1 } else { set.free_effort() };
        prop_assert!((1..=max_steps).contains(&steps), "{} steps", steps);
        assert_same(&moved, &model);
    }
}

/// Every number of members around the limit, close together and far apart.
#[test]
fn encoding_changes_at_its_limits() {
    for step in [1, 7, 65_536, 1 << 33] {
        let (mut set, mut model) = (IdSet::new(), BTreeSet::new());
        let members = COMPACT_MAX as u64 * 3 / 2;
        for i in 0..members {
            assert_eq!(
                set.encoding() == "compact",
                i <= COMPACT_MAX as u64,
                "{i} members"
            );
            assert_same(&set, &model);
            assert!(set.insert(i * step) && model.insert(i * step));
            assert!(!set.insert(i * step));
        }
        for i in (0..members).rev() {
            assert!(set.remove(i * step) && model.remove(&(i * step)));
            assert!(!set.remove(i * step));
            assert_same(&set, &model);
            // Well below the limit, so that a set at the border does not change its encoding with every call.
            assert_eq!(
                set.encoding() == "compact",
                i < COMPACT_SHRINK as u64,
                "{i} members"
            );
        }
    }
}

#[test]
fn container_changes_at_the_limit_of_an_array() {
    for first in [0, 61_440, (1 << 32) - 2_048, u64::MAX - 8_193] {
        let (mut set, mut model) = (IdSet::new(), BTreeSet::new());
        for i in 0..4_200 {
            let m = first + i * 2 % 8_193;
            assert_eq!(set.insert(m), model.insert(m));
            if (4_093..4_100).contains(&i) {
                assert_same(&set, &model);
            }
        }
        for m in model.clone() {
            assert!(set.remove(m) && model.remove(&m));
            if (4_093..4_100).contains(&model.len()) {
                assert_same(&set, &model);
            }
        }
        assert!(set.is_empty());
    }
}

#[test]
fn full_chunk_behaves_as_the_model() {
    let (first, last) = (2u64 << 16, (3u64 << 16) - 1);
    let model: BTreeSet<u64> = (first..=last).chain([5, last + 100]).collect();
    let set: IdSet = model.iter().copied().collect();
    for set in [with_runs(&set), set] {
        assert_same(&set, &model);
        for from in [0, 5, 6, first, first + 1, last, last + 1] {
            for limit in [1, 2, 127, 128, 129, 65_536, 70_000] {
                let mut out = Vec::new();
                set.scan(from, limit, &mut out);
                assert!(out.iter().eq(model.range(from..).take(limit)));
                out.clear();
                set.scan_rev(from, limit, &mut out);
                assert!(out.iter().eq(model.range(..=from).rev().take(limit)));
            }
        }
        for m in [first, last] {
            assert_eq!(set.rank(m), m - first + 1);
            assert_eq!(set.select(m - first + 1), Some(m));
        }
        assert_eq!(set.count(first, last), 65_536);
        let mut less = set.clone();
        assert!(less.remove(first) && !less.contains(first) && less.insert(first));
        assert_same(&less, &model);
    }
}

#[test]
fn smallest_and_largest_ids_are_members_like_others() {
    let ends = [
        0,
        1,
        65_535,
        65_536,
        u64::from(u32::MAX),
        1 << 32,
        u64::MAX - 1,
        u64::MAX,
    ];
    for filler in [0, 500] {
        let mut set: IdSet = ends
            .into_iter()
            .chain((0..filler).map(|i| 1_000_000 + i * 1_000))
            .collect();
        set.validate().unwrap();
        assert_eq!((set.min(), set.max()), (Some(0), Some(u64::MAX)));
        assert_eq!(set.rank(0), 0);
        assert_eq!(set.rank(u64::MAX), set.len() - 1);
        assert_eq!(set.select(set.len() - 1), Some(u64::MAX));
        assert_eq!(set.count(0, u64::MAX), set.len());
        assert_eq!(set.count(u64::MAX, u64::MAX), 1);
        assert_eq!(set.count(1, 0), 0);
        let mut out = Vec::new();
        set.scan(u64::MAX, usize::MAX, &mut out);
        set.scan_rev(0, usize::MAX, &mut out);
        set.scan(5, 0, &mut out);
        assert_eq!(out, [u64::MAX, 0]);
        set.scan(0, usize::MAX, &mut out);
        assert_eq!(out.len() as u64, set.len() + 2);
        for m in ends {
            assert!(set.remove(m));
        }
        assert_eq!(set.len(), filler);
    }
}

#[test]
fn empty_set_has_no_members() {
    let mut set = IdSet::new();
    assert!(set.is_empty() && !set.contains(0) && !set.remove(0));
    assert_eq!((set.min(), set.max(), set.select(0)), (None, None, None));
    assert_eq!((set.rank(u64::MAX), set.count(0, u64::MAX)), (0, 0));
    assert_eq!(set.defrag_step(0), None);
    assert_eq!(set.union_with(IdSet::new()), 0);
    assert_eq!(set, IdSet::default());
    let mut out = Vec::new();
    set.scan(0, 10, &mut out);
    set.scan_rev(u64::MAX, 10, &mut out);
    assert!(out.is_empty());
}

/// A server stores one pointer for each key.
#[test]
fn set_is_one_pointer() {
    assert_eq!(size_of::<IdSet>(), size_of::<usize>());
    fn is_send<T: Send>() {}
    is_send::<IdSet>();
}
