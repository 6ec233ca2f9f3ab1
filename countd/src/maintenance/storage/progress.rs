//! What a migration reports while it runs, and at its end.

use crate::domain::progress::{Progress, Update};
use serde::Serialize;

/// An object that cannot be moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The key of the object.
    pub key: String,
    /// Why it cannot be moved.
    pub reason: &'static str,
}

/// What a migration has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
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
        let counts = [("moved", self.moved), ("merged", self.merged)];
        let update = Update::new(step, self.scanned, "objects found");
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
