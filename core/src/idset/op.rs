//! The operations of set algebra.

/// An operation on sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetOp {
    /// The members of all sets.
    And,
    /// The members of any set.
    Or,
    /// The members of an odd number of the sets.
    Xor,
    /// The members of the first set that no other set has.
    Diff,
}
