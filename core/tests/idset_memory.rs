//! The allocations of set operations: loaders allocate in proportion to the payload, sets that shrink free memory, and
//! operations on one member allocate little. `idset_cost.rs` has the cost of large sets.

mod counting_allocator;

use counting_allocator::*;
use countint_core::idset::{BlobLoader, IdSet, SetOp};

fn loaded(cardinality: u64, blob: &[u8]) -> Option<IdSet> {
    let mut loader = BlobLoader::new(cardinality);
    loader.push(blob).ok()?;
    loader.finish().ok()
}

/// Headers that state large numbers, without the payloads.
#[test]
fn stated_numbers_without_payload_allocate_nothing() {
    let cookie = |runs: u32| (12347 | runs << 16).to_le_bytes();
    let half = [0u8; 4];
    let heads: [Vec<u8>; 6] = [
        // 2^40 high halves, without containers and with one missing container of 65,536 members.
        (1u64 << 40).to_le_bytes().to_vec(),
        [
            &(1u64 << 40).to_le_bytes()[..],
            &half,
            &12346u32.to_le_bytes(),
            &[1, 0, 0, 0, 0, 0, 255, 255, 16, 0, 0, 0],
        ]
        .concat(),
        // 65,536 containers, 65,536 containers of runs, and more than the maximum.
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

/// The worst cases: full containers in the shortest form, and members in separate chunks.
#[test]
fn memory_is_proportional_to_the_payload() {
    let full: IdSet = (0..65_536).collect();
    let full = IdSet::combine(SetOp::Or, &[&full]);
    let mut bytes = 4_000u64.to_le_bytes().to_vec();
    for half in 0..4_000u32 {
        bytes.extend_from_slice(&half.to_le_bytes());
        bytes.extend_from_slice(&full.export_range(0, u64::MAX)[12..]);
    }
    if bytes.len() > 100_000 {
        // The container of `full` must be runs.
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

    // 3 bytes a member, each in a separate chunk.
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
    // Eight bytes contain an id of 32 bits. Larger ids need a second word for the base.
    assert_eq!(cost(u64::from(u32::MAX), 1, 1), 8);
    assert_eq!(cost(1 << 32, 1, 1), 16);
    // Five offsets of 8 and of 12 bits.
    assert_eq!(cost(123_456_789, 5, 40), 16);
    assert_eq!(cost(123_456_789, 5, 1_000), 16);
    assert_eq!(cost(1 << 60, 10, 1 << 20), 16 + 32);
    assert_eq!(cost(1 << 60, 100, 1), 112);
}

/// Also when the nodes stay.
#[test]
fn removing_members_frees_memory() {
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

/// At most the members of one chunk are rewritten, while the set grows and while it shrinks.
#[test]
fn operations_on_one_member_allocate_little() {
    for step in [1u64, 3, 11, 200, 1 << 30] {
        let mut set = IdSet::new();
        let scattered = |i: u64| (i * 48_271 % 300_007) * step;
        let mut peak_of_all = 0;
        for i in 0..300_000 {
            peak_of_all = peak_of_all.max(measure(|| set.insert(scattered(i))).2);
        }
        for i in 0..300_000 {
            peak_of_all = peak_of_all.max(measure(|| set.remove(scattered(i))).2);
        }
        assert!(set.is_empty());
        assert!(
            peak_of_all < 64 << 10,
            "{peak_of_all} bytes with ids {step} apart"
        );
    }
}

/// Imported runs stay runs, here of 2^32 members.
#[test]
fn imported_range_stays_small() {
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
    // A copy, a part, and a union.
    let same = set.clone();
    assert_eq!(same, set);
    assert_eq!(set.union_with(same), 0);
    assert!(set.remove(7 << 32 | 99) && set.insert(5) && !set.insert(7 << 32));
    assert_eq!(set.len(), 1 << 32);
    set.validate().unwrap();
}

/// Runs are expanded before a change, so that they cannot grow beyond a bitmap.
#[test]
fn changed_runs_stay_small() {
    let full: IdSet = (0..65_536).collect();
    let (mut set, kept, _) = measure(|| IdSet::combine(SetOp::Or, &[&full]));
    assert!(kept < 600, "{kept}");
    let before = live();
    (0..32_768).for_each(|i| assert!(set.remove(i * 2)));
    assert!(live() - before < 9_000, "{}", live() - before);
    set.validate().unwrap();
}

#[test]
fn defragmentation_step_is_bounded() {
    let mut set: IdSet = (0..20 << 16).chain((0..5_000).map(|i| i << 20)).collect();
    let mut cursor = Some(0);
    while let Some(at) = cursor {
        let (next, _, peak) = measure(|| set.defrag_step(at));
        assert!(peak > 0 && peak < 11_000, "{peak}");
        cursor = next;
    }
}

#[test]
fn combine_len_does_not_build_the_result() {
    let a: IdSet = (0..1_000_000).map(|i| i * 2).collect();
    let b: IdSet = (0..1_000_000).map(|i| i * 3).collect();
    for op in [SetOp::And, SetOp::Or, SetOp::Xor, SetOp::Diff] {
        let (_, _, peak) = measure(|| IdSet::combine_len(op, &[&a, &b]));
        assert!(peak < 2_000, "{op:?} took {peak} bytes");
        let (_, _, peak) = measure(|| IdSet::combine_len(op, &[&a, &b, &a]));
        assert!(peak < 20_000, "{op:?} of three took {peak} bytes");
    }
}
