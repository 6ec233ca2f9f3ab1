//! What a migration reports while it runs, and at its end.

use serde::Serialize;

/// An object that cannot be moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The key of the object.
    pub key: String,
    /// Why it cannot be moved.
    pub reason: &'static str,
}

/// The progress of a migration.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Progress {
    /// The current step.
    pub step: String,
    /// The number of keys of the target that were found, in all passes of this run.
    pub scanned: u64,
    /// The number of objects that were moved.
    pub moved: u64,
    /// How many of them were added to a row that existed.
    pub merged: u64,
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
