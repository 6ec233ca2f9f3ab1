//! The commands: one file for each, or for a pair that belongs together. `lib.rs` lists them.

#![forbid(unsafe_code)]

pub mod cint;
pub mod ctab;
#[cfg(feature = "fault-injection")]
pub mod fault;
pub mod rbm;
mod shared;
