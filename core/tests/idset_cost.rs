//! Bytes per member of whole values, as a server with jemalloc accounts for them. They are deterministic.

mod counting_allocator;

use std::collections::BTreeSet;

use counting_allocator::*;
use countint_core::idset::IdSet;
use roaring::RoaringTreemap;

/// The overhead of a key in the server: the entry, the bucket, a short name, the object.
const KEY: usize = 88;
/// The further overhead of a module's value.
const MODULE: usize = 16;

/// SplitMix64 (Steele, Lea and Flood 2014).
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    /// 64 bits, the upper ones the milliseconds of one day.
    Snowflake,
    Sparse32,
    /// Below two million.
    Dense,
}

impl Kind {
    fn id(self, random: u64) -> u64 {
        match self {
            Kind::Snowflake => {
                let ms = 211_165_025_343 + random % 86_400_000;
                ms << 22 | (random >> 40 & 31) << 12 | random >> 60
            }
            Kind::Sparse32 => random >> 32,
            Kind::Dense => random % 2_000_000,
        }
    }

    /// Distinct ids in random order.
    fn ids(self, n: usize) -> Vec<u64> {
        let (mut state, mut seen, mut ids) = (n as u64, BTreeSet::new(), Vec::new());
        while ids.len() < n {
            let id = self.id(splitmix(&mut state));
            if seen.insert(id) {
                ids.push(id);
            }
        }
        ids
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Order {
    Random,
    Ascending,
    Descending,
}

impl Order {
    const ALL: [Order; 3] = [Order::Random, Order::Ascending, Order::Descending];

    fn arrange(self, mut ids: Vec<u64>) -> Vec<u64> {
        match self {
            Order::Random => {}
            Order::Ascending => ids.sort_unstable(),
            Order::Descending => ids.sort_unstable_by(|a, b| b.cmp(a)),
        }
        ids
    }
}

/// The bytes of the whole value of a set, and those after removing every second member.
fn cost(ids: &[u64]) -> (usize, usize) {
    let sorted: BTreeSet<u64> = ids.iter().copied().collect();
    let removed: BTreeSet<u64> = sorted.into_iter().step_by(2).collect();
    let before = live();
    let whole = || KEY + MODULE + (live() - before) as usize;
    let mut set: IdSet = ids.iter().copied().collect();
    let full = whole();
    for id in ids.iter().filter(|id| removed.contains(id)) {
        assert!(set.remove(*id));
    }
    let thinned = whole();
    set.validate().unwrap();
    (full, thinned)
}

/// The bytes of a Set of the server with its key: an intset of up to 512 members.
fn cost_of_intset(ids: &[u64]) -> usize {
    let width = match ids.iter().max() {
        Some(max) if max >> 31 > 0 => 8,
        Some(max) if max >> 15 > 0 => 4,
        _ => 2,
    };
    KEY + size_class(8 + width * ids.len())
}

/// Asserts that a set of `n` members, filled in any order, takes at most `max_bytes(ids)` bytes, also after the removal
/// of every second member.
fn assert_cost(kind: Kind, n: usize, max_bytes: impl Fn(&[u64]) -> usize) {
    let ids = kind.ids(n);
    let left: Vec<u64> = {
        let sorted: BTreeSet<u64> = ids.iter().copied().collect();
        sorted.into_iter().skip(1).step_by(2).collect()
    };
    for order in Order::ALL {
        let (full, thinned) = cost(&order.arrange(ids.clone()));
        println!(
            "{kind:?} {n} {order:?}: {:.2} bytes a member, {:.2} once thinned",
            full as f64 / n as f64,
            thinned as f64 / left.len() as f64
        );
        let limit = max_bytes(&ids);
        assert!(full <= limit, "{kind:?} {n} {order:?}: {full} of {limit}");
        let limit = max_bytes(&left);
        assert!(
            left.is_empty() || thinned <= limit,
            "{kind:?} {n} {order:?}, thinned: {thinned} of {limit}"
        );
    }
}

const KINDS: [Kind; 3] = [Kind::Snowflake, Kind::Sparse32, Kind::Dense];

#[test]
fn few_members_cost_little_more_than_in_a_set() {
    for kind in KINDS {
        for n in [1, 2, 5, 10, 20] {
            assert_cost(kind, n, |ids| cost_of_intset(ids) * 12 / 10);
        }
    }
}

#[test]
fn hundred_members_cost_no_more_than_in_a_set() {
    for kind in KINDS {
        for n in [100, 200, 500] {
            assert_cost(kind, n, cost_of_intset);
        }
    }
}

#[test]
fn snowflakes_cost_at_most_8_bytes() {
    for n in [1_000, 1_500, 2_500, 4_000, 10_000, 100_000, 1_000_000] {
        assert_cost(Kind::Snowflake, n, |ids| 8 * ids.len());
    }
}

#[test]
fn sparse_ids_of_32_bits_cost_at_most_5_bytes() {
    for n in [1_000, 1_500, 2_500, 4_000, 10_000, 100_000] {
        assert_cost(Kind::Sparse32, n, |ids| 5 * ids.len());
    }
    assert_cost(Kind::Sparse32, 1_000_000, |ids| 4 * ids.len());
}

#[test]
fn dense_ids_cost_no_more_than_in_roaring() {
    for n in [1_000, 10_000, 50_000, 100_000, 150_000, 250_000, 1_000_000] {
        assert_cost(Kind::Dense, n, |ids| {
            let (_, bytes, _) = measure(|| ids.iter().copied().collect::<RoaringTreemap>());
            (KEY + MODULE + bytes) * 105 / 100
        });
    }
}
