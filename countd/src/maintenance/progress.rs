//! The progress of all sweeps that compare counters, as their processes have saved it.

use super::reconcile::{Drifting, SavedKeySweep, SavedRowSweep};
use super::sums::{SavedSums, saved_sums};
use super::transposition::{SavedTransposition, saved_transposition};
use crate::domain::error::StoreError;
use crate::domain::ids::Name;
use crate::domain::keys::Partition;
use crate::redis::permissions::Permissions;
use crate::redis::store::Store;
use std::collections::{BTreeMap, BTreeSet};

/// Commands that this file sends.
const PERMISSIONS: &[&str] = &[
    "HGETALL {reconcile}",
    "HGETALL {drift}",
    "HMGET {sums} f",
    "HGETALL {transposition}",
];

/// The permissions that [`sweep_progress`] requires.
pub fn required_permissions() -> Permissions {
    Permissions::of_commands(PERMISSIONS)
}

/// The sweep over the rows of an entity type, in all partitions that have been visited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowProgress {
    /// The entity type.
    pub etype: Name,
    /// The number of tables.
    pub tables: u64,
    /// The number of rows of these tables when they were visited.
    pub rows: u64,
    /// How often every row of these tables has been compared.
    pub ended: u64,
    /// Since when the oldest unfinished sweep runs, in milliseconds since 1970.
    pub since: u64,
}

/// The sweep over the keys of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyProgress {
    /// The lowest partition of the node.
    pub lowest: Partition,
    /// How often every key has been visited.
    pub ended: u64,
    /// Since when the sweep runs, in milliseconds since 1970.
    pub since: u64,
}

/// The progress of all sweeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SweepProgress {
    /// The number of the last round; 0 before the first one.
    pub round: u64,
    /// The sweeps over rows.
    pub rows: Vec<RowProgress>,
    /// The sweeps over keys.
    pub keys: Vec<KeyProgress>,
    /// The sweep over authors and the comparison of followers.
    pub sums: SavedSums,
    /// The sweep over the facts of users.
    pub transposition: SavedTransposition,
    /// The counters that were above the thresholds in the last rounds, those with the most rounds first.
    pub drifting: Vec<Drifting>,
    /// The number of tables whose rows were lost and are being rebuilt.
    pub lost_tables: u64,
}

/// Reads the progress of all sweeps. Some round trips.
///
/// # Errors
/// The store is unavailable.
pub async fn sweep_progress(store: &Store) -> Result<SweepProgress, StoreError> {
    let keys = store.keys();
    let mut pipeline = redis::pipe();
    pipeline.cmd("HGETALL").arg(keys.reconciliation());
    pipeline.cmd("HGETALL").arg(keys.lost_tables());
    let drift: BTreeSet<String> = (0..keys.partitions()).map(|of| keys.drift(of)).collect();
    for hash in &drift {
        pipeline.cmd("HGETALL").arg(hash);
    }
    let mut hashes: Vec<BTreeMap<String, String>> =
        pipeline.query_async(&mut store.reads()).await?;
    let drifting = hashes.split_off(2);
    let mut hashes = hashes.into_iter();
    let saved = hashes.next().unwrap_or_default();
    let lost = hashes.next().unwrap_or_default();
    let drifting = drifting.iter().flatten();
    let drifting = drifting.filter_map(|(field, value)| Drifting::parse(field, value));
    let mut drifting: Vec<Drifting> = drifting.collect();
    drifting.sort_by_key(|counter| std::cmp::Reverse(counter.rounds));
    Ok(SweepProgress {
        round: saved
            .get("round")
            .and_then(|round| round.parse().ok())
            .unwrap_or(0),
        rows: row_progress(&saved),
        keys: key_progress(&saved),
        sums: saved_sums(store).await?,
        transposition: saved_transposition(store).await?,
        drifting,
        lost_tables: lost.len() as u64,
    })
}

fn row_progress(saved: &BTreeMap<String, String>) -> Vec<RowProgress> {
    let mut by_type: BTreeMap<Name, RowProgress> = BTreeMap::new();
    for (field, value) in saved {
        let Some((etype, sweep)) = SavedRowSweep::of_field(field, value) else {
            continue;
        };
        let since = sweep.started.unwrap_or(0);
        let progress = by_type.entry(etype.clone()).or_insert(RowProgress {
            etype,
            tables: 0,
            rows: 0,
            ended: u64::MAX,
            since,
        });
        progress.tables += 1;
        progress.rows += sweep.rows.unwrap_or(0);
        progress.ended = progress.ended.min(sweep.number);
        progress.since = progress.since.min(since);
    }
    by_type.into_values().collect()
}

fn key_progress(saved: &BTreeMap<String, String>) -> Vec<KeyProgress> {
    let sweeps = saved.iter().filter_map(|(field, value)| {
        let (lowest, sweep) = SavedKeySweep::of_field(field, value)?;
        Some(KeyProgress {
            lowest,
            ended: sweep.number,
            since: sweep.started?,
        })
    });
    sweeps.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_that_of_the_sweep_that_is_behind() {
        let saved = [
            ("round", "7"),
            ("rows:v1:note:0", "0/2000/3/10"),
            ("rows:v1:note:1", "17/1000/2/5"),
            ("rows:v1:topic:1", "17/3000/9/5"),
            ("keys:0", "abc/5/4000/6/1/0"),
            ("keys:x", "abc/5/4000/6/1/0"),
            ("rows:v1:note:2", "damaged"),
        ];
        let saved = saved.map(|(field, value)| (field.to_owned(), value.to_owned()));
        let saved = BTreeMap::from(saved);
        let rows = row_progress(&saved);
        let note = RowProgress {
            etype: Name::new("note").expect("a name"),
            tables: 2,
            rows: 15,
            ended: 2,
            since: 1000,
        };
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0], note);
        let expected = KeyProgress {
            lowest: 0,
            ended: 6,
            since: 4000,
        };
        assert_eq!(key_progress(&saved), [expected]);
    }
}
