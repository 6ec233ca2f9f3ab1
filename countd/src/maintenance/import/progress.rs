//! Progress on stderr: plain lines.

use crate::domain::ids::Name;
use std::time::{Duration, Instant};

/// The time between two lines.
const INTERVAL: Duration = Duration::from_secs(2);

/// Reports progress.
pub struct Progress {
    name: Name,
    step: &'static str,
    size: Option<u64>,
    started: Instant,
    last: Instant,
    /// The number of records before this run.
    before: u64,
}

impl Progress {
    /// Starts a step of an import of a file of `size` bytes. Earlier runs have processed `before` records.
    pub fn start(name: &Name, step: &'static str, size: Option<u64>, before: u64) -> Progress {
        let now = Instant::now();
        Progress {
            name: name.clone(),
            step,
            size,
            started: now,
            last: now,
            before,
        }
    }

    /// Prints the progress if the last line is old enough. `offset` is the number of bytes of the file so far.
    pub fn update(&mut self, records: u64, offset: Option<u64>) {
        if self.last.elapsed() >= INTERVAL {
            self.last = Instant::now();
            self.print(records, offset);
        }
    }

    /// Prints the progress.
    pub fn print(&self, records: u64, offset: Option<u64>) {
        let seconds = self.started.elapsed().as_secs_f64();
        let rate = records.saturating_sub(self.before) as f64 / seconds.max(0.001);
        let part = match (offset, self.size) {
            (Some(offset), Some(size)) => {
                format!(", {offset} of {size} bytes")
            }
            _ => String::new(),
        };
        self.note(&format!(
            "{} {records} records{part}, {rate:.0} records/s",
            self.step
        ));
    }

    /// Prints a line.
    pub fn note(&self, text: &str) {
        eprintln!("import {}: {text}", self.name);
    }
}
