//! Memory of a member of a set, by data structure, size, distribution and order of insertion.

use crate::driver::connection::BulkWriter;
use crate::driver::programs::Programs;
use crate::driver::server::{Server, Workdir};
use crate::error::Result;
use crate::measure::memory::MemoryBaseline;
use crate::workload::dataset::set_key;
use crate::workload::ids::{Distribution, FIRST_ID, FIRST_SET};
use crate::workload::scale::Scale;
use crate::workload::set_kind::SetKind;

/// The sizes of sets.
const SIZES: [u64; 7] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];
/// The largest intset: insertions into larger ones are too slow to be practical.
const MAX_INTSET: u64 = 100_000;
/// The maximum number of bitmaps. Each has a bit for every possible id, so a few suffice.
const MAX_BITMAPS: u64 = 20;
/// The range of dense ids.
pub const DENSE: u64 = 2_000_000;

/// The order in which a set is filled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    /// Random order.
    Random,
    /// Ascending order.
    Ascending,
    /// Descending order.
    Descending,
    /// Random order; then every second member by rank is removed, in random order.
    Halved,
}

/// Bytes per member of sets of one size and distribution.
pub struct MemberBytes {
    /// The distribution of their ids.
    pub distribution: Distribution,
    /// The size of each set.
    pub size: u64,
    /// A value for each combination that was measured.
    pub bytes: Vec<(SetKind, Fill, f64)>,
}

impl MemberBytes {
    /// The bytes per member of one combination.
    pub fn get(&self, kind: SetKind, fill: Fill) -> Option<f64> {
        let found = self.bytes.iter().find(|b| b.0 == kind && b.1 == fill);
        found.map(|b| b.2)
    }
}

/// Measures every combination.
pub fn measure(programs: &Programs, scale: &Scale) -> Result<Vec<MemberBytes>> {
    let sizes = SIZES.into_iter().filter(|&s| s <= scale.memory_members);
    let mut rows = Vec::new();
    for distribution in [
        Distribution::Snowflake,
        Distribution::Sparse,
        Distribution::Dense(DENSE),
    ] {
        rows.extend(sizes.clone().map(|size| MemberBytes {
            distribution,
            size,
            bytes: Vec::new(),
        }));
    }
    for kind in [
        SetKind::Rbm,
        SetKind::Set,
        SetKind::Intset,
        SetKind::Bitmap,
        SetKind::Roaring,
        SetKind::Cuckoo,
    ] {
        if kind.available(programs) {
            measure_kind(kind, &mut rows, programs, scale.memory_members)?;
        }
    }
    Ok(rows)
}

/// Measures one kind: fills a server with the sets of each row, one row after the other.
fn measure_kind(
    kind: SetKind,
    rows: &mut [MemberBytes],
    programs: &Programs,
    members: u64,
) -> Result<()> {
    let dir = Workdir::new()?;
    let server = Server::start(programs, &dir, kind.module(programs))?;
    kind.configure(&mut server.control()?)?;
    let warm_up = FillPlan::new(kind, Fill::Random, Distribution::Dense(DENSE), 10, 1_000);
    warm_up.run(&server)?;
    let baseline = MemoryBaseline::new(&server)?;
    for row in rows {
        for fill in fills(kind, row.distribution, row.size) {
            let limit = match kind {
                SetKind::Bitmap => MAX_BITMAPS,
                _ => u64::MAX,
            };
            let sets = limit.min(members / row.size);
            let left = FillPlan::new(kind, fill, row.distribution, sets, row.size).run(&server)?;
            row.bytes
                .push((kind, fill, baseline.growth()? / left as f64));
            baseline.clear()?;
        }
    }
    Ok(())
}

/// The fill orders to measure: all for an RBM; for other kinds, those that affect their size.
fn fills(kind: SetKind, distribution: Distribution, size: u64) -> Vec<Fill> {
    let dense = matches!(distribution, Distribution::Dense(_));
    match kind {
        SetKind::Rbm if size == 1 => vec![Fill::Random],
        SetKind::Rbm => vec![
            Fill::Random,
            Fill::Ascending,
            Fill::Descending,
            Fill::Halved,
        ],
        // Small Sets are compared with an RBM after the same removals.
        SetKind::Set if (2..=100).contains(&size) => vec![Fill::Random, Fill::Halved],
        SetKind::Intset if size > MAX_INTSET => vec![],
        SetKind::Intset => vec![Fill::Ascending],
        SetKind::Bitmap if !dense => vec![],
        _ => vec![Fill::Random],
    }
}

/// The sets to fill and their members.
struct FillPlan {
    kind: SetKind,
    fill: Fill,
    /// The members of each set, in insertion order.
    sets: Vec<Vec<u64>>,
}

impl FillPlan {
    fn new(
        kind: SetKind,
        fill: Fill,
        distribution: Distribution,
        sets: u64,
        size: u64,
    ) -> FillPlan {
        // A bitmap starts at the smallest possible id.
        let base = if kind == SetKind::Bitmap { FIRST_ID } else { 0 };
        let members = |set: u64| {
            let range = set * size..(set + 1) * size;
            let mut members: Vec<u64> = range.map(|i| distribution.nth(i) - base).collect();
            match fill {
                Fill::Ascending => members.sort_unstable(),
                Fill::Descending => members.sort_unstable_by(|a, b| b.cmp(a)),
                Fill::Random | Fill::Halved => {}
            }
            members
        };
        FillPlan {
            kind,
            fill,
            sets: (0..sets).map(members).collect(),
        }
    }

    /// Adds members one at a time, to each set in turn, as in production. Returns the final number of members.
    fn run(&self, server: &Server) -> Result<u64> {
        let mut writer = BulkWriter::open(server.port())?;
        let size = self.sets.first().map_or(0, Vec::len);
        for (set, members) in self.sets.iter().enumerate() {
            let key = set_key(FIRST_SET + set as u64);
            // Eight is the smallest capacity of a cuckoo filter.
            if let Some(words) = self.kind.reserve(&key, members.len().max(8) as u64) {
                writer.push(&words)?;
            }
        }
        for i in 0..size {
            for (set, members) in self.sets.iter().enumerate() {
                let key = set_key(FIRST_SET + set as u64);
                let command = self.kind.add(&key, &members[i].to_string());
                writer.push_line(&command)?;
            }
        }
        let mut left = (self.sets.len() * size) as u64;
        if self.fill == Fill::Halved {
            for (set, members) in self.sets.iter().enumerate() {
                let key = set_key(FIRST_SET + set as u64);
                for member in every_second(members) {
                    let command = self.kind.remove(&key, &member.to_string());
                    writer.push_line(&command)?;
                    left -= 1;
                }
            }
        }
        writer.finish()?;
        Ok(left)
    }
}

/// Every second member by rank, in insertion order.
fn every_second(members: &[u64]) -> impl Iterator<Item = u64> {
    let mut sorted = members.to_vec();
    sorted.sort_unstable();
    let removed = move |member: &u64| sorted.binary_search(member).is_ok_and(|rank| rank % 2 == 1);
    members.iter().copied().filter(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_member_by_rank_is_removed() {
        let removed: Vec<u64> = every_second(&[50, 10, 30, 20, 40]).collect();
        assert_eq!(removed, [20, 40]);
    }

    #[test]
    fn all_fill_orders_have_the_same_members() {
        let fill = |fill| {
            let filling = FillPlan::new(SetKind::Set, fill, Distribution::Sparse, 2, 50);
            let mut members = filling.sets[1].clone();
            let first = members[0];
            members.sort_unstable();
            (first == members[0], first == members[49], members)
        };
        let ascending = fill(Fill::Ascending);
        let descending = fill(Fill::Descending);
        assert!(ascending.0 && descending.1);
        assert_eq!(ascending.2, descending.2);
        assert_eq!(ascending.2, fill(Fill::Random).2);
    }

    #[test]
    fn impractical_combinations_are_not_measured() {
        assert!(fills(SetKind::Intset, Distribution::Sparse, 1_000_000).is_empty());
        assert!(fills(SetKind::Bitmap, Distribution::Snowflake, 10).is_empty());
        assert_eq!(fills(SetKind::Rbm, Distribution::Snowflake, 10).len(), 4);
    }
}
