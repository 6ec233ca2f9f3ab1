//! The order in which the ids of entities arrive.

use crate::workload::counts::SplitMix;
use crate::workload::ids::Distribution;

/// The order in which the ids of entities arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Ascending, as a product creates them. One in twenty arrives later, by up to 1 % of all.
    Ascending,
    /// Random.
    Random,
}

impl Arrivals {
    /// The name in figures.
    pub fn name(self) -> &'static str {
        match self {
            Arrivals::Ascending => "ascending",
            Arrivals::Random => "random",
        }
    }

    /// The name in the report.
    pub fn label(self) -> &'static str {
        match self {
            Arrivals::Ascending => "ascending, 5 % late",
            Arrivals::Random => "in random order",
        }
    }

    /// The first `count` ids of a distribution, in this order.
    pub fn ids(self, distribution: Distribution, count: u64) -> Vec<u64> {
        let mut ids: Vec<u64> = (0..count).map(|i| distribution.nth(i)).collect();
        if self == Arrivals::Random {
            return ids;
        }
        ids.sort_unstable();
        let mut random = SplitMix(3);
        let mut due: Vec<(u64, u64)> = (0..)
            .zip(ids)
            .map(|(at, id)| match random.below(20) {
                0 => (at + random.below(count / 100 + 1), id),
                _ => (at, id),
            })
            .collect();
        due.sort_by_key(|(at, _)| *at);
        due.into_iter().map(|(_, id)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_ids_arrive_late() {
        let ids = |arrivals: Arrivals| arrivals.ids(Distribution::Snowflakes3y, 10_000);
        let ascending = ids(Arrivals::Ascending);
        let late = ascending.windows(2).filter(|pair| pair[0] > pair[1]);
        assert!((300..=600).contains(&late.count()));
        let mut all = [ascending, ids(Arrivals::Random)];
        assert_ne!(all[0], all[1]);
        all.iter_mut().for_each(|ids| ids.sort_unstable());
        assert_eq!(all[0], all[1]);
    }
}
