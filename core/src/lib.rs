//! The data structures behind the CountInt module. Nothing here knows of Redis, and nothing does I/O.
//!
//! - [`countint`]: a few unsigned 40-bit counters in one small allocation, and the arithmetic on them.
//! - [`counttab`]: many rows of such counters, by id, each as narrow as its neighbours allow.
//! - [`decimal`]: integers in the one spelling that Redis accepts.

#![deny(unsafe_code)]

// Unit tests are compiled with other limits, and run the tests of `tests/` once more.
#[cfg(test)]
extern crate self as countint_core;

pub mod countint;
pub mod counttab;
pub mod decimal;
pub mod idset;
mod search;
