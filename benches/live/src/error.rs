//! The one error type of the driver program.

/// Any failure. Nothing in this program recovers from one: it is printed and the run ends.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
