//! What a migration reports while it runs, and at its end.

use crate::domain::progress::{Progress, Update};
use serde::Serialize;

/// The maximum number of damaged keys that are reported.
pub(super) const MAX_DAMAGED: usize = 1_000;

/// A key that cannot be moved or converted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The key.
    pub key: String,
    /// Why it cannot be.
    pub reason: &'static str,
}

/// What a migration has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// About the number of keys that the current pass has looked at, of all types.
    pub visited: u64,
    /// The number of keys of all nodes when the pass began.
    pub all: u64,
    /// The number of keys of the target that were found, in all passes of this run.
    pub scanned: u64,
    /// The number of objects that were moved.
    pub moved: u64,
    /// How many of them were added to a row that existed.
    pub merged: u64,
}

impl Counts {
    /// Shows them with the current step.
    pub fn show(self, step: &str, progress: &dyn Progress) {
        let counts = [
            ("found", self.scanned),
            ("moved", self.moved),
            ("merged", self.merged),
        ];
        let all = (self.all > 0).then_some(self.all);
        let visited = all.map_or(self.visited, |all| self.visited.min(all));
        let update = Update::new(step, visited, "keys").of(all);
        progress.update(&update.with(&counts));
    }
}

/// The result of a migration.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The entity type, or `user`.
    pub target: String,
    /// The number of objects that this run moved. Requests and consumers move objects, too.
    pub moved: u64,
    /// How many of them were added to a row that existed.
    pub merged: u64,
    /// The number of passes over the keys.
    pub passes: u64,
    /// Objects that were left because they are damaged.
    pub damaged: Vec<Damage>,
}
