//! Which ids are asked for. Everything follows from seeds, so that all sides of a comparison see exactly the same
//! sequence.

use crate::distribution::{Distribution, FIRST_ID, Layout};
use crate::rowset::FIRST_ROW;

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

/// How a workload chooses its ids.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pick {
    /// Any of the first so many objects, each as likely as the next.
    Objects(u64),
    /// Any of the first so many rows of a table, each as likely as the next.
    Rows(u64),
    /// Ids of sets.
    Members(Distribution, Layout, Asked),
}

/// Which ids of sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Asked {
    /// Members.
    Present,
    /// Members and others, as many of the one as of the other.
    Either,
    /// Ids that the sets lack, each once, in scattered order.
    EachAbsent,
}

/// An object, or an id and the set that it is asked of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Picked {
    /// The set's number.
    pub set: u64,
    /// The id.
    pub id: u64,
}

impl Pick {
    /// The most ids that may be taken from one seed.
    pub fn limit(self) -> u64 {
        match self {
            // Some ids of a distribution may have too few digits: less than a quarter.
            Pick::Members(_, layout, Asked::EachAbsent) => layout.total() / 4 * 3,
            _ => u64::MAX,
        }
    }

    /// The digits of every id.
    pub fn digits(self) -> usize {
        match self {
            Pick::Objects(_) => 7,
            Pick::Rows(_) => 8,
            Pick::Members(distribution, ..) => distribution.digits(),
        }
    }
}

/// An endless sequence of ids.
pub struct Numbers {
    pick: Pick,
    state: u64,
}

/// Steps through a power of ten, or a few of them, in scattered order; without a common factor it meets each once.
const STRIDE: u64 = 618_033;

impl Numbers {
    /// The sequence that belongs to `seed`.
    pub fn new(pick: Pick, seed: u64) -> Numbers {
        Numbers {
            pick,
            state: mix(seed),
        }
    }

    /// The next id.
    pub fn next_pick(&mut self) -> Picked {
        match self.pick {
            Pick::Objects(objects) => Picked {
                set: 0,
                id: FIRST_ID + self.below(objects),
            },
            Pick::Rows(rows) => Picked {
                set: 0,
                id: FIRST_ROW + self.below(rows),
            },
            Pick::Members(distribution, layout, asked) => loop {
                let i = self.next_index(layout, asked);
                let id = distribution.nth(i);
                if has_digits(id, distribution.digits()) {
                    let set = layout.set_of(i);
                    return Picked { set, id };
                }
            },
        }
    }

    fn next_index(&mut self, layout: Layout, asked: Asked) -> u64 {
        let total = layout.total();
        match asked {
            Asked::Present => self.below(total),
            Asked::Either => self.below(2 * total),
            Asked::EachAbsent => {
                self.state = (self.state % total + STRIDE) % total;
                total + self.state
            }
        }
    }

    /// A random number below `n`, which is far below 2^32. The state runs as splitmix64's does.
    fn below(&mut self, n: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        ((mix(self.state) >> 32) * n) >> 32
    }
}

/// Whether `id` has this many digits, of at most 19.
fn has_digits(id: u64, digits: usize) -> bool {
    id >= 10u64.pow(digits as u32 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const SETS: Layout = Layout {
        sets: 100,
        size: 1_000,
    };

    #[test]
    fn objects_stay_in_range_and_reach_both_ends() {
        let mut numbers = Numbers::new(Pick::Objects(1_000_000), 7);
        let ids: Vec<u64> = (0..200_000).map(|_| numbers.next_pick().id).collect();
        assert!(ids.iter().all(|id| (1_000_000..2_000_000).contains(id)));
        assert!(ids.iter().any(|&id| id < 1_001_000) && ids.iter().any(|&id| id >= 1_999_000));
    }

    #[test]
    fn rows_are_asked_for_by_eight_digits() {
        let mut numbers = Numbers::new(Pick::Rows(10_000_000), 7);
        let ids: Vec<u64> = (0..200_000).map(|_| numbers.next_pick().id).collect();
        assert!(ids.iter().all(|id| (10_000_000..20_000_000).contains(id)));
        assert!(ids.iter().any(|&id| id < 10_010_000) && ids.iter().any(|&id| id >= 19_990_000));
    }

    #[test]
    fn half_of_either_are_members_and_all_of_present() {
        let dense = Distribution::Dense(200_000);
        let members: HashSet<u64> = (0..SETS.total()).map(|i| dense.nth(i)).collect();
        for (asked, share) in [(Asked::Present, 1.0), (Asked::Either, 0.5)] {
            let mut numbers = Numbers::new(Pick::Members(dense, SETS, asked), 1);
            let hits = (0..10_000).filter(|_| members.contains(&numbers.next_pick().id));
            assert!((hits.count() as f64 / 10_000.0 - share).abs() < 0.03);
        }
    }

    #[test]
    fn each_absent_id_comes_once_and_is_no_member() {
        for distribution in [
            Distribution::Snowflake,
            Distribution::Sparse,
            Distribution::Dense(200_000),
        ] {
            let pick = Pick::Members(distribution, SETS, Asked::EachAbsent);
            let members: HashSet<u64> = (0..SETS.total()).map(|i| distribution.nth(i)).collect();
            let mut numbers = Numbers::new(pick, 3);
            let absent: HashSet<u64> = (0..pick.limit()).map(|_| numbers.next_pick().id).collect();
            assert_eq!(absent.len() as u64, pick.limit(), "{distribution:?}");
            assert!(members.is_disjoint(&absent));
            let digits = pick.digits();
            assert!(absent.iter().all(|id| id.to_string().len() == digits));
        }
    }

    #[test]
    fn a_seed_gives_the_same_sequence_again_and_another_does_not() {
        let take = |seed| {
            let mut numbers = Numbers::new(Pick::Objects(1_000_000), seed);
            (0..10).map(|_| numbers.next_pick().id).collect::<Vec<_>>()
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
