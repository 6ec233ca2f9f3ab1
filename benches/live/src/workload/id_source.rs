//! Samples the ids of a workload. The sequence is a function of a seed, so all sides of a comparison use the same ids.

use crate::workload::counts::{SplitMix, mix};
use crate::workload::ids::{Distribution, FIRST_ID, FIRST_ROW, Layout};
use crate::workload::table::Tables;

/// The ids from which a workload samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum IdSource {
    /// This number of objects, uniformly distributed.
    Objects(u64),
    /// This number of rows of a table, uniformly distributed.
    Rows(u64),
    /// Rows of many tables, uniformly distributed.
    Tables(Tables),
    /// Members of sets, or ids absent from them.
    Members(Distribution, Layout, Presence),
}

/// Whether the sampled ids are members.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Presence {
    /// Members only.
    Present,
    /// Members and absent ids in equal shares.
    Half,
    /// Absent ids, each at most once, in pseudorandom order.
    Absent,
}

/// A sampled id and its set or table, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SampledId {
    /// The number of the set or table.
    pub set: u64,
    /// The id.
    pub id: u64,
}

impl IdSource {
    /// The maximum number of distinct samples of one seed.
    pub fn limit(self) -> u64 {
        match self {
            // Fewer than a quarter of the ids of a distribution have too few digits.
            IdSource::Members(_, layout, Presence::Absent) => layout.total() / 4 * 3,
            _ => u64::MAX,
        }
    }

    /// The number of digits of each id.
    pub fn digits(self) -> usize {
        match self {
            IdSource::Objects(_) => 7,
            IdSource::Rows(_) => 8,
            IdSource::Tables(tables) => tables.ids.digits(),
            IdSource::Members(distribution, ..) => distribution.digits(),
        }
    }
}

/// An infinite sequence of sampled ids.
pub struct IdSampler {
    source: IdSource,
    random: SplitMix,
    /// The index of the last sampled absent id.
    index: u64,
}

/// The step between indexes of absent ids: coprime to the sizes of all layouts, so each index occurs once.
const STRIDE: u64 = 618_033;

impl IdSampler {
    /// The sequence of `seed`.
    pub fn new(source: IdSource, seed: u64) -> IdSampler {
        IdSampler {
            source,
            random: SplitMix(mix(seed)),
            index: mix(seed),
        }
    }

    /// The next id.
    pub fn next_id(&mut self) -> SampledId {
        match self.source {
            IdSource::Objects(objects) => SampledId {
                set: 0,
                id: FIRST_ID + self.random.below(objects),
            },
            IdSource::Rows(rows) => SampledId {
                set: 0,
                id: FIRST_ROW + self.random.below(rows),
            },
            IdSource::Tables(tables) => {
                let id = tables.ids.nth(self.random.below(tables.rows));
                let set = Tables::table_of(id);
                SampledId { set, id }
            }
            IdSource::Members(distribution, layout, presence) => loop {
                let i = self.next_index(layout, presence);
                let id = distribution.nth(i);
                if has_digits(id, distribution.digits()) {
                    let set = layout.set_of(i);
                    return SampledId { set, id };
                }
            },
        }
    }

    fn next_index(&mut self, layout: Layout, presence: Presence) -> u64 {
        let total = layout.total();
        match presence {
            Presence::Present => self.random.below(total),
            Presence::Half => self.random.below(2 * total),
            Presence::Absent => {
                self.index = (self.index % total + STRIDE) % total;
                total + self.index
            }
        }
    }
}

/// Whether `id` has at least this many digits (at most 19).
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
        let mut sampler = IdSampler::new(IdSource::Objects(1_000_000), 7);
        let ids: Vec<u64> = (0..200_000).map(|_| sampler.next_id().id).collect();
        assert!(ids.iter().all(|id| (1_000_000..2_000_000).contains(id)));
        assert!(ids.iter().any(|&id| id < 1_001_000) && ids.iter().any(|&id| id >= 1_999_000));
    }

    #[test]
    fn row_ids_have_eight_digits() {
        let mut sampler = IdSampler::new(IdSource::Rows(10_000_000), 7);
        let ids: Vec<u64> = (0..200_000).map(|_| sampler.next_id().id).collect();
        assert!(ids.iter().all(|id| (10_000_000..20_000_000).contains(id)));
        assert!(ids.iter().any(|&id| id < 10_010_000) && ids.iter().any(|&id| id >= 19_990_000));
    }

    #[test]
    fn half_or_all_of_the_ids_are_members() {
        let dense = Distribution::Dense(200_000);
        let members: HashSet<u64> = (0..SETS.total()).map(|i| dense.nth(i)).collect();
        for (presence, share) in [(Presence::Present, 1.0), (Presence::Half, 0.5)] {
            let mut sampler = IdSampler::new(IdSource::Members(dense, SETS, presence), 1);
            let hits = (0..10_000).filter(|_| members.contains(&sampler.next_id().id));
            assert!((hits.count() as f64 / 10_000.0 - share).abs() < 0.03);
        }
    }

    #[test]
    fn absent_ids_are_distinct_and_no_members() {
        for distribution in [
            Distribution::Snowflake,
            Distribution::Sparse,
            Distribution::Dense(200_000),
        ] {
            let source = IdSource::Members(distribution, SETS, Presence::Absent);
            let members: HashSet<u64> = (0..SETS.total()).map(|i| distribution.nth(i)).collect();
            let mut sampler = IdSampler::new(source, 3);
            let absent: HashSet<u64> = (0..source.limit()).map(|_| sampler.next_id().id).collect();
            assert_eq!(absent.len() as u64, source.limit(), "{distribution:?}");
            assert!(members.is_disjoint(&absent));
            let digits = source.digits();
            assert!(absent.iter().all(|id| id.to_string().len() == digits));
        }
    }

    #[test]
    fn the_sequence_is_a_function_of_the_seed() {
        let take = |seed| {
            let mut sampler = IdSampler::new(IdSource::Objects(1_000_000), seed);
            (0..10).map(|_| sampler.next_id().id).collect::<Vec<_>>()
        };
        assert_eq!(take(1), take(1));
        assert_ne!(take(1), take(2));
    }
}
