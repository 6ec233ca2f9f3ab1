//! Compares `IdSet` of `countint-core` with `BTreeSet`, without a server.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::Instant;

use countint_core::idset::IdSet;

use crate::error::Result;
use crate::workload::ids::Distribution;
use crate::workload::scale::Scale;

/// Interleaved rounds.
pub const ROUNDS: usize = 7;
/// The ratio of existing members to inserted members.
const MEMBERS_PER_INSERT: u64 = 5;

/// Nanoseconds per member, one value per round.
#[derive(Default)]
pub struct Times {
    /// Inserting a new member.
    pub insert: Vec<f64>,
    /// Testing membership, half of the ids absent.
    pub contains: Vec<f64>,
}

/// The times of both structures for the same members.
pub struct LibraryTimes {
    /// The ids of the members.
    pub distribution: Distribution,
    /// `IdSet`.
    pub ours: Times,
    /// `BTreeSet`.
    pub theirs: Times,
}

/// The operations that are compared.
trait Members: Clone {
    fn insert(&mut self, m: u64) -> bool;
    fn contains(&self, m: u64) -> bool;
}

impl Members for IdSet {
    fn insert(&mut self, m: u64) -> bool {
        IdSet::insert(self, m)
    }

    fn contains(&self, m: u64) -> bool {
        IdSet::contains(self, m)
    }
}

impl Members for BTreeSet<u64> {
    fn insert(&mut self, m: u64) -> bool {
        BTreeSet::insert(self, m)
    }

    fn contains(&self, m: u64) -> bool {
        BTreeSet::contains(self, &m)
    }
}

/// Measures large sets of each distribution.
pub fn measure(scale: &Scale) -> Result<Vec<LibraryTimes>> {
    let members = scale.members;
    let distributions = [
        Distribution::Snowflake,
        Distribution::Sparse,
        Distribution::Dense(2 * members),
    ];
    Ok(distributions.map(|d| compare(d, members)).into())
}

/// Measures both structures with the same members, in turn.
fn compare(distribution: Distribution, members: u64) -> LibraryTimes {
    let ids = |range: std::ops::Range<u64>| range.map(move |i| distribution.nth(i));
    let ours: IdSet = ids(0..members).collect();
    let theirs: BTreeSet<u64> = ids(0..members).collect();
    let fresh: Vec<u64> = ids(members..members + members / MEMBERS_PER_INSERT).collect();
    let inside = ids(0..members).step_by(MEMBERS_PER_INSERT as usize);
    let probes: Vec<u64> = fresh
        .iter()
        .copied()
        .zip(inside)
        .flat_map(<[u64; 2]>::from)
        .collect();
    let (mut our_times, mut their_times) = (Times::default(), Times::default());
    for _ in 0..ROUNDS {
        round(&ours, &fresh, &probes, &mut our_times);
        round(&theirs, &fresh, &probes, &mut their_times);
    }
    LibraryTimes {
        distribution,
        ours: our_times,
        theirs: their_times,
    }
}

fn round(set: &impl Members, fresh: &[u64], probes: &[u64], times: &mut Times) {
    let started = Instant::now();
    let found = probes.iter().filter(|&&m| set.contains(m)).count();
    times.contains.push(nanoseconds(started, probes.len()));
    assert_eq!(black_box(found), probes.len() / 2, "half are members");
    let mut grown = set.clone();
    let started = Instant::now();
    let added = fresh.iter().filter(|&&m| grown.insert(m)).count();
    times.insert.push(nanoseconds(started, fresh.len()));
    assert_eq!(black_box(added), fresh.len(), "all are new");
}

fn nanoseconds(since: Instant, of: usize) -> f64 {
    since.elapsed().as_nanos() as f64 / of as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_structures_are_timed_in_every_round() {
        let times = compare(Distribution::Snowflake, 1_000);
        for times in [times.ours, times.theirs] {
            assert_eq!(times.insert.len(), ROUNDS);
            assert_eq!(times.contains.len(), ROUNDS);
        }
    }
}
