//! The outcome of a chunk.

use super::record::Origin;

/// The outcome of a chunk.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The number of records that changed something.
    pub changed: u64,
    /// The records that cannot be applied, and why.
    pub invalid: Vec<(Origin, String)>,
}
