//! The costs of facts and of their partitions in commits, from measurements at two rates.

use super::commits;
use super::cost::Cost;

/// What facts cost at two rates: at the lower one each has a partition of its own in a commit.
pub struct MeasuredFacts {
    /// The cost of a fact at the higher rate, with everything that a second costs.
    pub dense: Cost,
    /// The higher rate, per second.
    pub rate: f64,
    /// The cost of a fact at the lower rate, without what a second costs.
    pub sparse: Cost,
    /// What a second costs.
    pub second: Cost,
}

impl MeasuredFacts {
    /// The cost of a fact and that of a partition with facts in a commit.
    pub fn split(&self) -> (Cost, Cost) {
        let partitions = commits::partitions(self.rate, 1.0) / self.rate;
        let dense = self.dense.without(self.second.times(1.0 / self.rate));
        let partition = self.sparse.without(dense).times(1.0 / (1.0 - partitions));
        let partition = partition.map(self.sparse, f64::min);
        let fact = self.sparse.without(partition);
        let client = self.dense.client;
        (Cost { client, ..fact }, partition)
    }
}

#[cfg(test)]
mod tests {
    use super::super::cost::testing::assert_cost;
    use super::*;

    #[test]
    fn facts_that_share_partitions_cost_less() {
        let cost = |countd: f64, redis: f64| Cost {
            client: 0.0,
            countd: countd * 1e-6,
            redis: redis * 1e-6,
        };
        // As many as partitions in each interval, of which 1 - 1/e have some.
        let rate = 1_024.0 / commits::INTERVAL;
        let of = |dense: Cost| {
            let second = cost(1e6, 2e6).times(0.1);
            let facts = MeasuredFacts {
                dense: dense.plus(second.times(1.0 / rate)),
                rate,
                sparse: cost(10.0, 30.0),
                second,
            };
            facts.split()
        };
        let shared = 1.0 - (-1.0f64).exp();
        let (fact, partition) = of(cost(4.0 + 6.0 * shared, 20.0 + 10.0 * shared));
        assert_cost(fact, [0.0, 4_000.0, 20_000.0]);
        assert_cost(partition, [0.0, 6_000.0, 10_000.0]);
        // What was measured as more expensive for many has nothing that can be shared.
        let (fact, partition) = of(cost(20.0, 40.0));
        assert_cost(fact, [0.0, 10_000.0, 30_000.0]);
        assert_eq!(partition, Cost::default());
        // Facts that shared all cannot have cost less than nothing.
        let (fact, partition) = of(cost(0.0, 0.0));
        assert_eq!(fact, Cost::default());
        assert_cost(partition, [0.0, 10_000.0, 30_000.0]);
    }
}
