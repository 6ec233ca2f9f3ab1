//! The data structures of the CountInt module. This crate does not depend on Redis and does no I/O.
//!
//! - [`countint`]: a few unsigned 40-bit counters in one small allocation.
//! - [`counttab`]: rows of such counters by 64-bit id, in compressed pages.
//! - [`idset`]: exact sets of 64-bit ids.
//! - [`decimal`]: canonical decimal integers.

#![deny(unsafe_code)]

// The unit tests run the tests in `tests/` again, with other limits, under this name.
#[cfg(test)]
extern crate self as countint_core;

pub mod countint;
pub mod counttab;
pub mod decimal;
pub mod idset;
mod search;
mod size_class;
