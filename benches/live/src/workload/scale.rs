//! The sizes and durations of a full run and of a quick one.

use std::time::Duration;

/// The sizes of one run.
#[derive(Clone, Copy)]
pub struct Scale {
    /// Epochs: how often all processes of a comparison are restarted and reloaded.
    pub epochs: usize,
    /// Interleaved rounds of every side in each epoch.
    pub rounds: usize,
    /// Duration of a round with a pipeline.
    pub pipelined_round: Duration,
    /// Duration of a round without one.
    pub single_round: Duration,
    /// Objects of a data set.
    pub objects: u64,
    /// Objects of the data set that fits into the CPU caches.
    pub hot_objects: u64,
    /// Rows of the large table.
    pub rows: u64,
    /// Members of the large sets.
    pub members: u64,
    /// Members loaded for each row of the table of bytes per member.
    pub memory_members: u64,
    /// Final size of a set or table that grows while command latencies are recorded.
    pub latency_members: u64,
    /// Number of times that it grows.
    pub latency_runs: usize,
    /// Number of times that each data set is saved and loaded.
    pub snapshots: usize,
    /// The load on countd.
    pub countd: CountdScale,
}

/// The load on countd.
#[derive(Clone, Copy)]
pub struct CountdScale {
    /// Number of times that everything is restarted.
    pub repeats: usize,
    /// Events in the log.
    pub events: u64,
    /// Duration of each kind of request.
    pub requests: Duration,
    /// Number of actions whose visibility is timed under load.
    pub probes: usize,
    /// Entities whose memory is measured.
    pub entities: u64,
    /// Events of these entities in each partition.
    pub entity_events: u64,
    /// Events of hot keys that a rebuild replays.
    pub replayed_events: u64,
    /// Entities whose counters are compared with their facts.
    pub compared_entities: u64,
    /// Facts of a split entity that is merged.
    pub merged_facts: u64,
    /// Seconds until a round of comparisons begins, and the maximum that it takes.
    pub round_seconds: u64,
}

impl Scale {
    /// The scale of published figures: at most 40 minutes.
    pub fn full() -> Scale {
        Scale {
            epochs: 2,
            rounds: 9,
            pipelined_round: Duration::from_millis(150),
            single_round: Duration::from_millis(70),
            objects: 1_000_000,
            hot_objects: 10_000,
            rows: 10_000_000,
            members: 1_000_000,
            memory_members: 1_000_000,
            latency_members: 10_000_000,
            latency_runs: 2,
            snapshots: 7,
            countd: CountdScale {
                repeats: 3,
                events: 1_000_000,
                requests: Duration::from_secs(3),
                probes: 200,
                entities: 10_000_000,
                entity_events: 1_000,
                replayed_events: 4_000_000,
                compared_entities: 1_000_000,
                merged_facts: 100_000,
                round_seconds: 120,
            },
        }
    }

    /// The scale of `--quick`: under three minutes.
    pub fn quick() -> Scale {
        Scale {
            epochs: 1,
            rounds: 3,
            pipelined_round: Duration::from_millis(50),
            single_round: Duration::from_millis(25),
            objects: 100_000,
            hot_objects: 10_000,
            rows: 1_000_000,
            members: 100_000,
            memory_members: 100_000,
            latency_members: 1_000_000,
            latency_runs: 1,
            snapshots: 3,
            countd: CountdScale {
                repeats: 1,
                events: 300_000,
                requests: Duration::from_millis(800),
                probes: 40,
                entities: 1_000_000,
                entity_events: 200,
                replayed_events: 300_000,
                compared_entities: 20_000,
                merged_facts: 20_000,
                round_seconds: 20,
            },
        }
    }

    /// The duration of a round at a pipeline depth.
    pub fn round(&self, depth: usize) -> Duration {
        if depth > 1 {
            self.pipelined_round
        } else {
            self.single_round
        }
    }
}
