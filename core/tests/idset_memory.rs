//! What a set's calls allocate: no payload makes a loader allocate for members that are not there, what shrinks gives its
//! memory back, and no call on one member needs more than a little. What sets of many members cost is in
//! `idset_cost.rs`.

mod idset_counting;

use countint_core::idset::{BlobLoader, IdSet, SetOp};
use idset_counting::*;

fn loaded(cardinality: u64, blob: &[u8]) -> Option<IdSet> {
    let mut loader = BlobLoader::new(cardinality);
    loader.push(blob).ok()?;
    loader.finish().ok()
}

/// Heads that promise much, and nothing behind them.
#[test]
fn a_claim_of_2_to_the_40_members_allocates_nothing_for_them() {
    let cookie = |runs: u32| (12347 | runs << 16).to_le_bytes();
    let half = [0u8; 4];
    let heads: [Vec<u8>; 6] = [
        // 2^40 high halves; as many with one container of all 65,536 members that is not there.
        (1u64 << 40).to_le_bytes().to_vec(),
        [
            &(1u64 << 40).to_le_bytes()[..],
            &half,
            &12346u32.to_le_bytes(),
            &[1, 0, 0, 0, 0, 0, 255, 255, 16, 0, 0, 0],
        ]
        .concat(),
        // 65,536 containers; as many of runs; more than there can be.
        [
            &1u64.to_le_bytes()[..],
            &half,
            &12346u32.to_le_bytes(),
            &65_536u32.to_le_bytes(),
        ]
        .concat(),
        [&1u64.to_le_bytes()[..], &half, &cookie(65_535)].concat(),
        [
            &1u64.to_le_bytes()[..],
            &half,
            &12346u32.to_le_bytes(),
            &u32::MAX.to_le_bytes(),
        ]
        .concat(),
        // 65,535 runs.
        [
            &1u64.to_le_bytes()[..],
            &half,
            &cookie(0),
            &[1, 0, 0, 255, 255, 255, 255],
        ]
        .concat(),
    ];
    for head in heads {
        let (set, _, peak) = measure(|| IdSet::from_portable(&head));
        assert!(set.is_err() && peak < 1_000, "{peak} bytes for {head:?}");
        let blob = [vec![2], head].concat();
        let (set, _, peak) = measure(|| loaded(1 << 40, &blob));
        assert!(set.is_none() && peak < 1_000, "{peak} bytes for {blob:?}");
    }
    let (set, _, peak) = measure(|| loaded(1 << 40, &[1, 7, 7]));
    assert!(set.is_none() && peak < 1_000, "{peak} bytes");
}

/// The worst that a byte can cost: a full container in its shortest form, a member in a block of its own.
#[test]
fn memory_is_in_proportion_to_the_bytes() {
    let full: IdSet = (0..65_536).collect();
    let full = IdSet::combine(SetOp::Or, &[&full]);
    let mut bytes = 4_000u64.to_le_bytes().to_vec();
    for half in 0..4_000u32 {
        bytes.extend_from_slice(&half.to_le_bytes());
        bytes.extend_from_slice(&full.export_range(0, u64::MAX)[12..]);
    }
    if bytes.len() > 100_000 {
        // One container as a bitmap or as runs, whichever `full` is made of: here it must be runs.
        panic!("{} bytes are no runs", bytes.len());
    }
    let (set, live, peak) = measure(|| IdSet::from_portable(&bytes).unwrap());
    assert_eq!(set.len(), 4_000 << 16);
    assert!(
        live < 10 * bytes.len() && peak < 15 * bytes.len(),
        "{live}, at most {peak}, for {} bytes",
        bytes.len()
    );

    // A container for each member, 10 bytes each.
    let lone: IdSet = (0..60_000).map(|i| i << 16).collect();
    let bytes = lone.export();
    let (_, live, peak) = measure(|| IdSet::from_portable(&bytes).unwrap());
    assert!(
        live < 10 * bytes.len() && peak < 20 * bytes.len(),
        "{live}, at most {peak}, for {} bytes",
        bytes.len()
    );

    // 3 bytes a member, each in a block of its own.
    let varints: Vec<u8> = [vec![1], [0x80, 0x80, 0x08].repeat(100_000)].concat();
    let (set, live, peak) = measure(|| loaded(100_000, &varints).unwrap());
    assert_eq!(set.len(), 100_000);
    assert!(
        live < 40 * varints.len() && peak < 60 * varints.len(),
        "{live}, at most {peak}, for {}",
        varints.len()
    );
}

#[test]
fn small_sets_cost_few_bytes() {
    let (_, live, _) = measure(IdSet::new);
    assert_eq!(live, 0);
    let cost = |first: u64, n: u64, step: u64| {
        measure(|| (0..n).map(|i| first + i * step).collect::<IdSet>()).1
    };
    // Eight bytes hold an id of 32 bits; the others need a base of their own.
    assert_eq!(cost(u64::from(u32::MAX), 1, 1), 8);
    assert_eq!(cost(1 << 32, 1, 1), 16);
    // Five offsets of 8 and of 12 bits.
    assert_eq!(cost(123_456_789, 5, 40), 16);
    assert_eq!(cost(123_456_789, 5, 1_000), 16);
    assert_eq!(cost(1 << 60, 10, 1 << 20), 16 + 32);
    assert_eq!(cost(1 << 60, 100, 1), 112);
}

/// A set that shrinks gives its memory back, also where its nodes stay.
#[test]
fn removing_gives_memory_back() {
    for step in [1, 9, 100, 1 << 17] {
        let (mut set, full, _) = measure(|| (0..50_000).map(|i| i * step).collect::<IdSet>());
        let before = live();
        for i in 0..49_500 {
            assert!(set.remove(i * step));
        }
        let left = full as isize + live() - before;
        assert_ne!(set.encoding(), "compact");
        assert!(
            left < 500 * 4 + 1_000,
            "{left} bytes of {full} left for 500 members {step} apart"
        );
        for i in 49_500..50_000 {
            assert!(set.remove(i * step));
        }
        assert_eq!(full as isize + live() - before, 0);
    }
    let mut thinned: IdSet = (0..400_000).collect();
    let before = live();
    (0..400_000)
        .filter(|i| i % 4_000 != 0)
        .for_each(|i| assert!(thinned.remove(i)));
    assert!(
        live() - before < -50_000,
        "seven bitmaps became pages of few"
    );
}

/// No call on one member rewrites more than a chunk's members, whatever the set has, as it grows and as it shrinks.
#[test]
fn a_call_on_one_member_allocates_little() {
    for step in [1u64, 3, 11, 200, 1 << 30] {
        let mut set = IdSet::new();
        let scattered = |i: u64| (i * 48_271 % 300_007) * step;
        let mut most = 0;
        for i in 0..300_000 {
            most = most.max(measure(|| set.insert(scattered(i))).2);
        }
        for i in 0..300_000 {
            most = most.max(measure(|| set.remove(scattered(i))).2);
        }
        assert!(set.is_empty());
        assert!(most < 64 << 10, "{most} bytes with ids {step} apart");
    }
}

/// Imported runs stay runs: these are 2^32 members.
#[test]
fn a_wide_range_stays_small() {
    let full: IdSet = (0..65_536).collect();
    let full = IdSet::combine(SetOp::Or, &[&full]).export();
    let mut bytes = 1u64.to_le_bytes().to_vec();
    bytes.extend_from_slice(&[7, 0, 0, 0]);
    bytes.extend_from_slice(&(12347u32 | 65_535 << 16).to_le_bytes());
    bytes.extend_from_slice(&[0xff; 8192]);
    (0..=u16::MAX).for_each(|key| bytes.extend([key.to_le_bytes(), [0xff; 2]].concat()));
    let payload = &full[full.len() - 6..];
    let first = bytes.len() - 12 + 4 * 65_536;
    (0..65_536).for_each(|i| bytes.extend(((first + i * 6) as u32).to_le_bytes()));
    (0..65_536).for_each(|_| bytes.extend(payload));
    let (mut set, live, _) = measure(|| IdSet::from_portable(&bytes).unwrap());
    assert_eq!((set.len(), set.encoding()), (1 << 32, "dense"));
    assert!(live < 65_536 * 150, "{live}");
    // A copy, a part of it, and some more.
    let same = set.clone();
    assert_eq!(same, set);
    assert_eq!(set.union_with(same), 0);
    assert!(set.remove(7 << 32 | 99) && set.insert(5) && !set.insert(7 << 32));
    assert_eq!(set.len(), 1 << 32);
    set.validate().unwrap();
}

/// A container of runs that changes is made anew, so that it cannot grow beyond a bitmap.
#[test]
fn runs_that_change_stay_small() {
    let full: IdSet = (0..65_536).collect();
    let (mut set, kept, _) = measure(|| IdSet::combine(SetOp::Or, &[&full]));
    assert!(kept < 600, "{kept}");
    let before = live();
    (0..32_768).for_each(|i| assert!(set.remove(i * 2)));
    assert!(live() - before < 9_000, "{}", live() - before);
    set.validate().unwrap();
}

/// One step moves one node and needs little room for it.
#[test]
fn a_step_of_defragmentation_is_bounded() {
    let mut set: IdSet = (0..20 << 16).chain((0..5_000).map(|i| i << 20)).collect();
    let mut cursor = Some(0);
    while let Some(at) = cursor {
        let (next, _, peak) = measure(|| set.defrag_step(at));
        assert!(peak > 0 && peak < 11_000, "{peak}");
        cursor = next;
    }
}

/// Counting needs no copy of the sets.
#[test]
fn counting_a_result_does_not_make_it() {
    let a: IdSet = (0..1_000_000).map(|i| i * 2).collect();
    let b: IdSet = (0..1_000_000).map(|i| i * 3).collect();
    for op in [SetOp::And, SetOp::Or, SetOp::Xor, SetOp::Diff] {
        let (_, _, peak) = measure(|| IdSet::combine_len(op, &[&a, &b]));
        assert!(peak < 2_000, "{op:?} took {peak} bytes");
        let (_, _, peak) = measure(|| IdSet::combine_len(op, &[&a, &b, &a]));
        assert!(peak < 20_000, "{op:?} of three took {peak} bytes");
    }
}
