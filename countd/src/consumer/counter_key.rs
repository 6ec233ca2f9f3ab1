//! Keys of counters, as commits see them.

use crate::domain::config::BUILT_IN_COUNTERS;

/// Why the value at a key cannot be incremented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnusableKey {
    /// It is not an object or a table of counters.
    WrongType,
    /// It is an object with fewer fields than the original schema, so countd did not create it. A table only has to grow.
    TooShort,
}

/// The number of fields of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectLength {
    /// The length to which the commit extends the object.
    pub len: usize,
    /// The minimum length of an existing object.
    pub min_len: usize,
}

impl ObjectLength {
    /// The length of the counters of users, of which there are `len`.
    pub fn of_users(len: usize) -> ObjectLength {
        ObjectLength {
            len,
            min_len: BUILT_IN_COUNTERS.len(),
        }
    }
}
