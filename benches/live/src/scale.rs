//! How much is measured, and for how long: the two kinds of run.

use std::time::Duration;

use crate::countd::Load;

/// The sizes of one run.
pub struct Scale {
    /// Times that all processes of a comparison are started and loaded anew.
    pub epochs: usize,
    /// Interleaved rounds of every side in each epoch.
    pub rounds: usize,
    /// How long a round lasts with pipelines of 64, and without.
    pub deep_round: Duration,
    /// See [`deep_round`](Self::deep_round).
    pub flat_round: Duration,
    /// Objects of a data set.
    pub objects: u64,
    /// Objects of the data set that fits into the processor's caches.
    pub hot_objects: u64,
    /// Rows of the large table.
    pub rows: u64,
    /// Members of the large sets.
    pub members: u64,
    /// Members loaded for each row of bytes per member.
    pub weighed_members: u64,
    /// Members to which one set grows while its slowest command is looked for.
    pub grown_members: u64,
    /// Times that it grows.
    pub growths: usize,
    /// Times that each data set is saved and loaded.
    pub saves: usize,
    /// What countd is given to do.
    pub countd: Load,
}

impl Scale {
    /// Figures to quote: at most 25 minutes.
    pub fn full() -> Scale {
        Scale {
            epochs: 2,
            rounds: 9,
            deep_round: Duration::from_millis(150),
            flat_round: Duration::from_millis(70),
            objects: 1_000_000,
            hot_objects: 10_000,
            rows: 10_000_000,
            members: 1_000_000,
            weighed_members: 1_000_000,
            grown_members: 10_000_000,
            growths: 2,
            saves: 7,
            countd: Load {
                repeats: 3,
                events: 1_000_000,
                requests: Duration::from_secs(3),
                probes: 200,
            },
        }
    }

    /// Figures to look at: under three minutes.
    pub fn quick() -> Scale {
        Scale {
            epochs: 1,
            rounds: 3,
            deep_round: Duration::from_millis(50),
            flat_round: Duration::from_millis(25),
            objects: 100_000,
            hot_objects: 10_000,
            rows: 1_000_000,
            members: 100_000,
            weighed_members: 100_000,
            grown_members: 1_000_000,
            growths: 1,
            saves: 3,
            countd: Load {
                repeats: 1,
                events: 300_000,
                requests: Duration::from_millis(800),
                probes: 40,
            },
        }
    }

    /// How long a round lasts at this depth.
    pub fn round(&self, depth: usize) -> Duration {
        if depth > 1 {
            self.deep_round
        } else {
            self.flat_round
        }
    }
}
