//! The ids of objects, rows and set members: a function from an index to an id, in pseudorandom order, without a lookup
//! table.
//!
//! Indexes below N are the members of a data set of N, the next N are absent ids. So a member or an absent id can be
//! sampled without a lookup.

use crate::workload::counts::mix;

/// The smallest id of objects and of dense sets. All have seven digits, so they can be patched into encoded commands.
pub const FIRST_ID: u64 = 1_000_000;
/// The number of the first set, which has seven digits too.
pub const FIRST_SET: u64 = 1_000_000;
/// The smallest row id of a table. All have eight digits.
pub const FIRST_ROW: u64 = 10_000_000;
/// A snowflake of June 2024, in Twitter's layout: milliseconds since November 2010, 10 bits of machine, 12 of sequence.
const FIRST_SNOWFLAKE: u64 = 1_800_000_000_000_000_000;
/// 2^48.5: about 26 hours of snowflakes. A million of them lie 2^28.5 apart on average.
const SNOWFLAKES: u64 = 398_065_729_532_860;
/// 2^58.5: three years of snowflakes.
const SNOWFLAKES_3Y: u64 = (3 * 31_557_600_000) << 22;

/// The order in which ids are inserted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrival {
    /// Any order.
    Random,
    /// The order of this number of ids, except that every 20th is inserted late, after 1 % of all ids have passed it.
    Ascending(u64),
}

/// The distribution of ids.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// 64-bit Twitter snowflakes of 26 hours: any of 2^48.5.
    Snowflake,
    /// 64-bit Twitter snowflakes of three years: any of 2^58.5, or one of each of equal intervals.
    Snowflakes3y(Arrival),
    /// Any 32-bit numbers.
    Sparse,
    /// Any id of a range of this size.
    Dense(u64),
    /// Sequential ids.
    Successive,
}

impl Distribution {
    /// The name in `--only`, in figures and in charts.
    pub fn name(self) -> &'static str {
        match self {
            Distribution::Snowflake => "snowflake",
            Distribution::Snowflakes3y(Arrival::Random) => "snowflake-3y-random",
            Distribution::Snowflakes3y(Arrival::Ascending(_)) => "snowflake-3y-ascending",
            Distribution::Sparse => "sparse",
            Distribution::Dense(_) => "dense",
            Distribution::Successive => "successive",
        }
    }

    /// The name in the report.
    pub fn label(self) -> String {
        match self {
            Distribution::Snowflake => "snowflake 64-bit ids".into(),
            Distribution::Snowflakes3y(Arrival::Random) => {
                "snowflake ids of three years in random order".into()
            }
            Distribution::Snowflakes3y(Arrival::Ascending(_)) => {
                "snowflake ids of three years, ascending, 5 % late".into()
            }
            Distribution::Sparse => "sparse 32-bit ids".into(),
            Distribution::Dense(of) => format!("dense ids (of {})", short(of)),
            Distribution::Successive => "successive ids".into(),
        }
    }

    /// The number of possible ids.
    pub fn range(self) -> u64 {
        match self {
            Distribution::Snowflake => SNOWFLAKES,
            Distribution::Snowflakes3y(Arrival::Random) => SNOWFLAKES_3Y,
            Distribution::Snowflakes3y(Arrival::Ascending(ids)) => ids,
            Distribution::Sparse => 1 << 32,
            Distribution::Dense(of) => of,
            Distribution::Successive => u64::MAX - FIRST_ID,
        }
    }

    /// The id of index `i`, which is below [`range`](Self::range). The function is injective.
    pub fn nth(self, i: u64) -> u64 {
        match self {
            Distribution::Snowflake => FIRST_SNOWFLAKE + permute(i, SNOWFLAKES),
            Distribution::Snowflakes3y(Arrival::Random) => {
                FIRST_SNOWFLAKE + permute(i, SNOWFLAKES_3Y)
            }
            Distribution::Snowflakes3y(Arrival::Ascending(ids)) => {
                let (interval, nth) = (SNOWFLAKES_3Y / ids, ascending(i, ids));
                FIRST_SNOWFLAKE + nth * interval + mix(nth) % interval
            }
            Distribution::Sparse => permute(i, self.range()),
            Distribution::Dense(of) => FIRST_ID + permute(i, of),
            Distribution::Successive => FIRST_ID + i,
        }
    }

    /// The number of digits of an id in an encoded command. Shorter ids are loaded but never sampled.
    pub fn digits(self) -> usize {
        match self {
            Distribution::Snowflake | Distribution::Snowflakes3y(_) => 19,
            Distribution::Sparse => 10,
            Distribution::Dense(_) | Distribution::Successive => 7,
        }
    }

    /// The information-theoretic lower bound for `n` of these ids, in bytes per member: the logarithm of the number of
    /// such sets.
    pub fn entropy_bound(self, n: u64) -> f64 {
        let (n, range) = (n as f64, self.range() as f64);
        let share = n / range;
        let bits_per_id = -share * share.log2() - (1.0 - share) * (-share).ln_1p() / 2f64.ln();
        // Stirling's approximation with two terms.
        let bits = range * bits_per_id - 0.5 * (std::f64::consts::TAU * n * (1.0 - share)).log2();
        bits / n / 8.0
    }
}

/// The number of sets and their size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layout {
    /// The number of keys.
    pub sets: u64,
    /// The number of members of each.
    pub size: u64,
}

impl Layout {
    /// Members of all sets.
    pub fn total(self) -> u64 {
        self.sets * self.size
    }

    /// The set to which index `i` belongs, whether it is a member or an absent id.
    pub fn set_of(self, i: u64) -> u64 {
        FIRST_SET + i % self.total() / self.size
    }

    /// The name in the report.
    pub fn label(self) -> String {
        if self.sets == 1 {
            format!("{} in one key", short(self.size))
        } else {
            format!("{} keys of {}", short(self.sets), short(self.size))
        }
    }
}

/// Formats a round number: 100, 10k, 2M.
pub fn short(n: u64) -> String {
    match n {
        1_000_000.. if n.is_multiple_of(1_000_000) => format!("{}M", n / 1_000_000),
        1_000.. if n.is_multiple_of(1_000) => format!("{}k", n / 1_000),
        _ => n.to_string(),
    }
}

/// The ordinal of the id that is inserted as number `i` of `ids`; see [`Arrival::Ascending`].
fn ascending(i: u64, ids: u64) -> u64 {
    const GROUP: u64 = 20;
    // The last id of each group is inserted with the group that is `late` groups further on.
    let groups = ids / GROUP;
    let late = groups / 100;
    let without = late * (GROUP - 1);
    let with = without + (groups - late) * GROUP;
    if i >= groups * GROUP {
        i
    } else if i < without {
        i / (GROUP - 1) * GROUP + i % (GROUP - 1)
    } else if i >= with {
        (groups - late + i - with) * GROUP + GROUP - 1
    } else {
        let (group, slot) = ((i - without) / GROUP, (i - without) % GROUP);
        match slot {
            0..19 => (group + late) * GROUP + slot,
            _ => group * GROUP + slot,
        }
    }
}

/// A pseudorandom permutation of 0 .. `range`: a permutation of the next power of two, repeated until the result falls
/// into the range ("cycle walking").
fn permute(i: u64, range: u64) -> u64 {
    let bits = 64 - (range - 1).leading_zeros();
    let mut x = mix_bits(i, bits);
    while x >= range {
        x = mix_bits(x, bits);
    }
    x
}

/// A permutation of the numbers of `bits` bits: each step is invertible.
fn mix_bits(x: u64, bits: u32) -> u64 {
    let mask = u64::MAX >> (64 - bits);
    let mut x = x.wrapping_add(0x9E37_79B9_7F4A_7C15) & mask;
    for factor in [
        0xBF58_476D_1CE4_E5B9_u64,
        0x94D0_49BB_1331_11EB,
        0xD6E8_FEB8_6659_FD93,
    ] {
        x = x.wrapping_mul(factor) & mask;
        x ^= x >> (bits / 2);
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const ALL: [Distribution; 6] = [
        Distribution::Snowflake,
        Distribution::Sparse,
        Distribution::Dense(200_000),
        Distribution::Successive,
        Distribution::Snowflakes3y(Arrival::Random),
        Distribution::Snowflakes3y(Arrival::Ascending(200_000)),
    ];

    #[test]
    fn one_of_twenty_ascending_ids_is_late() {
        let distribution = Distribution::Snowflakes3y(Arrival::Ascending(200_000));
        let ids: Vec<u64> = (0..200_000).map(|i| distribution.nth(i)).collect();
        let mut largest = 0;
        let late = ids.iter().filter(|&&id| {
            largest = largest.max(id);
            id < largest
        });
        // The largest id is the last of the late ones.
        assert_eq!(late.count(), 200_000 / 20 - 1);
        assert!(ids[..1_000].is_sorted() && ids[199_950..].is_sorted());
    }

    #[test]
    fn ids_are_distinct_and_dense_ids_fill_their_range() {
        for distribution in ALL {
            let ids: HashSet<u64> = (0..200_000).map(|i| distribution.nth(i)).collect();
            assert_eq!(ids.len(), 200_000, "{distribution:?}");
        }
        let dense: HashSet<u64> = (0..200_000).map(|i| ALL[2].nth(i)).collect();
        assert!((FIRST_ID..FIRST_ID + 200_000).all(|id| dense.contains(&id)));
    }

    #[test]
    fn permuted_ids_are_spread_evenly() {
        for range in [SNOWFLAKES, 1 << 32, 2_000_000] {
            let mut tenths = [0; 10];
            for i in 0..20_000 {
                tenths[(permute(i, range) as f64 / range as f64 * 10.0) as usize] += 1;
            }
            assert!(
                tenths.iter().all(|n| (1_800..2_200).contains(n)),
                "{range}: {tenths:?}"
            );
        }
    }

    #[test]
    fn no_id_has_more_than_its_number_of_digits() {
        for distribution in ALL {
            let longest = (0..10_000).map(|i| distribution.nth(i).to_string().len());
            assert_eq!(longest.max(), Some(distribution.digits()));
        }
    }

    #[test]
    fn the_entropy_bound_matches_known_values() {
        // One of 2^32 ids takes 4 bytes; half of two million take one bit for each possible id.
        assert!((Distribution::Sparse.entropy_bound(1) - 4.0).abs() < 0.05);
        assert!((Distribution::Dense(2_000_000).entropy_bound(1_000_000) - 0.25).abs() < 0.001);
        assert!((Distribution::Snowflake.entropy_bound(1_000_000) - 3.75).abs() < 0.01);
    }

    #[test]
    fn absent_ids_are_assigned_to_the_same_sets_as_members() {
        let layout = Layout {
            sets: 10,
            size: 100,
        };
        assert_eq!(
            (layout.set_of(0), layout.set_of(99)),
            (FIRST_SET, FIRST_SET)
        );
        assert_eq!(layout.set_of(100), FIRST_SET + 1);
        assert_eq!(layout.set_of(1_000 + 999), FIRST_SET + 9);
        assert_eq!(layout.label(), "10 keys of 100");
    }
}
