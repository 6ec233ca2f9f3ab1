//! The error type.

/// Any error. The program never recovers from one: it prints the error and exits.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
