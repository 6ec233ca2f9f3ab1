//! What sets cost, and that no payload makes a loader allocate for members that are not there. One test at a time counts
//! its own thread's bytes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use countint_core::idset::{BlobLoader, IdSet, SetOp};

struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn note(bytes: isize) {
    LIVE.set(LIVE.get() + bytes);
    PEAK.set(PEAK.get().max(LIVE.get()));
}

// SAFETY: every call goes on to `System` unchanged; only counters are added, which do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        note(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What `f` makes, the bytes that stay allocated for it, and the most that were at one time.
fn measure<T>(f: impl FnOnce() -> T) -> (T, usize, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let made = f();
    let (live, peak) = (LIVE.get() - before, PEAK.get() - before);
    (made, live.max(0) as usize, peak as usize)
}

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
    let cost =
        |n: u64, step: u64| measure(|| (0..n).map(|i| 123_456_789 + i * step).collect::<IdSet>()).1;
    assert_eq!(cost(1, 1), 5);
    assert_eq!(cost(5, 40), 9);
    assert_eq!(cost(5, 1_000), 13);
    assert_eq!(cost(128, 1), 132);
    assert!(cost(128, 1 << 40) <= 128 * 6);
}

/// A set that shrinks gives its memory back, also where its blocks stay.
#[test]
fn removing_gives_memory_back() {
    for step in [1, 9, 100, 1 << 17] {
        let (mut set, full, _) = measure(|| (0..50_000).map(|i| i * step).collect::<IdSet>());
        let (_, _, _) = measure(|| ());
        let before = LIVE.get();
        for i in 0..49_900 {
            assert!(set.remove(i * step));
        }
        let left = full as isize + LIVE.get() - before;
        assert_eq!(set.encoding(), "roaring");
        // 100 members, each at most in a block of its own, and the nodes that the tree keeps.
        assert!(
            left < 100 * 150 + 3_000,
            "{left} bytes of {full} left for 100 members {step} apart"
        );
        for i in 49_900..50_000 {
            assert!(set.remove(i * step));
        }
        assert_eq!(full as isize + LIVE.get() - before, 0);
    }
    let mut thinned: IdSet = (0..400_000).collect();
    let before = LIVE.get();
    (0..400_000)
        .filter(|i| i % 4_000 != 0)
        .for_each(|i| assert!(thinned.remove(i)));
    assert!(
        LIVE.get() - before < -40_000,
        "seven blocks became arrays of few"
    );
}

/// A container of runs that changes is made anew, so that it cannot grow beyond a bitmap.
#[test]
fn runs_that_change_stay_small() {
    let full: IdSet = (0..65_536).collect();
    let (mut set, live, _) = measure(|| IdSet::combine(SetOp::Or, &[&full]));
    assert!(live < 600, "{live}");
    let before = LIVE.get();
    (0..32_768).for_each(|i| assert!(set.remove(i * 2)));
    assert!(LIVE.get() - before < 9_000, "{}", LIVE.get() - before);
    set.validate().unwrap();
}

/// One step moves one block and needs little room for it.
#[test]
fn a_step_of_defragmentation_is_bounded() {
    let mut set: IdSet = (0..20 << 16).chain((0..5_000).map(|i| i << 20)).collect();
    let mut cursor = Some(0);
    while let Some(at) = cursor {
        let (next, _, peak) = measure(|| set.defrag_step(at));
        assert!(peak > 0 && peak < 9_000, "{peak}");
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
