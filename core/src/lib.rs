//! The data structures behind the CountInt module. Nothing here knows of Redis, and nothing does I/O.
//!
//! - [`countint`]: a few unsigned 40-bit counters in one small allocation, and the arithmetic on them.
//! - [`counttab`]: many rows of such counters, by id, each as narrow as its neighbours allow.
//! - [`decimal`]: integers in the one spelling that Redis accepts.

#![deny(unsafe_code)]

pub mod countint;
pub mod counttab;
pub mod decimal;
pub mod idset;
