//! Limits the rate at which entities are compared.

use std::time::{Duration, Instant};

/// The rate of a round.
pub struct Pace {
    per_second: f64,
    started: Instant,
    done: u64,
}

impl Pace {
    /// A rate of this many entities per second.
    pub fn new(per_second: u64) -> Pace {
        Pace {
            per_second: per_second as f64,
            started: Instant::now(),
            done: 0,
        }
    }

    /// Waits after this many further entities until the rate permits more.
    pub async fn add(&mut self, entities: usize) {
        self.done += entities as u64;
        let due = Duration::from_secs_f64(self.done as f64 / self.per_second);
        tokio::time::sleep(due.saturating_sub(self.started.elapsed())).await;
    }
}
