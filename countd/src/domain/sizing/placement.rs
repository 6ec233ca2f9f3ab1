//! How partitions are spread over the masters of a cluster.

use crate::domain::keys::slot;

/// The number of partitions of countd's data.
pub const PARTITIONS: usize = 1_024;
/// The hash slots of a cluster.
const SLOTS: usize = 16_384;

/// The slots of all partitions.
pub struct Placement(Vec<usize>);

impl Placement {
    /// Computes them. Keys end in their partition as a hash tag.
    pub fn new() -> Placement {
        let of = |partition: usize| usize::from(slot(partition.to_string().as_bytes()));
        Placement((0..PARTITIONS).map(of).collect())
    }

    /// The number of partitions of the master that has most of them, if each has as many successive slots, as `redis-cli --cluster create`
    /// assigns them.
    pub fn most_partitions(&self, masters: usize) -> usize {
        let mut counts = vec![0; masters.max(1)];
        for slot in &self.0 {
            counts[slot * masters.max(1) / SLOTS] += 1;
        }
        counts.into_iter().max().unwrap_or(0)
    }

    /// The share of all data and of the load on it that the busiest master has.
    pub fn busiest_share(&self, masters: usize) -> f64 {
        self.most_partitions(masters) as f64 / PARTITIONS as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_master_has_at_least_its_share() {
        let placement = Placement::new();
        assert_eq!(placement.most_partitions(1), PARTITIONS);
        for masters in [2, 3, 7, 64, 1_024, 16_384] {
            let most = placement.most_partitions(masters);
            assert!(most >= PARTITIONS.div_ceil(masters), "{masters}: {most}");
        }
        assert_eq!(placement.0[382], usize::from(slot(b"cnt:v1:note:1:{382}")));
    }
}
