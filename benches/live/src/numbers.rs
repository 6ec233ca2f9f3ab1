//! Which ids are loaded and which are asked for. Everything follows from seeds, so that both sides of a comparison see
//! exactly the same sequence.

/// Objects in a data set, and members of a large set.
pub const OBJECTS: u64 = 1_000_000;
/// The smallest id. Ids are 1,000,000 and up so that all have seven digits and can be patched in place.
pub const FIRST_ID: u64 = 1_000_000;

/// A well-mixed value of `x` (the finalizer of splitmix64).
pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// The count in `field` of object `object`: as in life most are small. Log-uniform below 2^20.
pub fn count(object: u64, field: u64) -> u64 {
    let r = mix(object * 8 + field);
    (r >> 44) >> (r % 20)
}

/// The member of pair `pair` (two neighbouring ids) that is in the half-full set.
pub fn half_member(pair: u64) -> u64 {
    FIRST_ID + 2 * pair + (mix(pair) & 1)
}

/// The member of pair `pair` that is not in the half-full set.
pub fn half_absent(pair: u64) -> u64 {
    FIRST_ID + 2 * pair + (!mix(pair) & 1)
}

/// How a workload chooses its ids.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pick {
    /// Any of the first million ids, each as likely as the next.
    Uniform,
    /// Any of the first two million, of which the half-full set holds one million.
    UniformOfTwo,
    /// The million ids that the half-full set lacks, each once, in scattered order.
    EachAbsent,
}

impl Pick {
    /// The most ids that may be taken from one seed.
    pub fn limit(self) -> u64 {
        match self {
            Pick::Uniform | Pick::UniformOfTwo => u64::MAX,
            Pick::EachAbsent => OBJECTS,
        }
    }
}

/// An endless sequence of ids.
pub struct Numbers {
    pick: Pick,
    state: u64,
}

/// Steps through a million pairs in scattered order; without a factor in common with 1,000,000 it meets each once.
const STRIDE: u64 = 618_033;

impl Numbers {
    /// The sequence that belongs to `seed`.
    pub fn new(pick: Pick, seed: u64) -> Numbers {
        let state = match pick {
            Pick::Uniform | Pick::UniformOfTwo => mix(seed),
            Pick::EachAbsent => mix(seed) % OBJECTS,
        };
        Numbers { pick, state }
    }

    /// The next id.
    pub fn next_id(&mut self) -> u64 {
        match self.pick {
            Pick::Uniform => FIRST_ID + self.below(OBJECTS),
            Pick::UniformOfTwo => FIRST_ID + self.below(2 * OBJECTS),
            Pick::EachAbsent => {
                self.state = (self.state + STRIDE) % OBJECTS;
                half_absent(self.state)
            }
        }
    }

    /// A random number below `n`, which is far below 2^32. The state runs as splitmix64's does.
    fn below(&mut self, n: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        ((mix(self.state) >> 32) * n) >> 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn uniform_ids_stay_in_range_and_reach_both_ends() {
        for (pick, end) in [(Pick::Uniform, 2_000_000), (Pick::UniformOfTwo, 3_000_000)] {
            let mut numbers = Numbers::new(pick, 7);
            let ids: Vec<u64> = (0..200_000).map(|_| numbers.next_id()).collect();
            let width = end - FIRST_ID;
            assert!(ids.iter().all(|id| (FIRST_ID..end).contains(id)));
            assert!(ids.iter().any(|&id| id < FIRST_ID + width / 1000));
            assert!(ids.iter().any(|&id| id >= end - width / 1000));
        }
    }

    #[test]
    fn each_absent_id_comes_once_and_is_no_member() {
        let members: HashSet<u64> = (0..OBJECTS).map(half_member).collect();
        let mut numbers = Numbers::new(Pick::EachAbsent, 3);
        let absent: HashSet<u64> = (0..OBJECTS).map(|_| numbers.next_id()).collect();
        assert_eq!(members.len() as u64, OBJECTS);
        assert_eq!(absent.len() as u64, OBJECTS);
        assert!(members.is_disjoint(&absent));
    }

    #[test]
    fn a_seed_gives_the_same_sequence_again_and_another_does_not() {
        let take = |seed| {
            let mut numbers = Numbers::new(Pick::Uniform, seed);
            (0..10).map(|_| numbers.next_id()).collect::<Vec<_>>()
        };
        assert_eq!(take(1), take(1));
        assert_ne!(take(1), take(2));
    }

    #[test]
    fn counts_are_small_but_not_all_alike() {
        let counts: Vec<u64> = (0..10_000).map(|i| count(i, 2)).collect();
        assert!(counts.iter().all(|&c| c < 1 << 20));
        assert!(counts.iter().any(|&c| c > 1 << 18) && counts.iter().any(|&c| c < 4));
    }
}
