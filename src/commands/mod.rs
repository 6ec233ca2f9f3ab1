//! The commands: one file for each command or pair of related commands. `lib.rs` lists them.

#![forbid(unsafe_code)]

pub mod cint;
pub mod ctab;
#[cfg(feature = "fault-injection")]
pub mod fault;
pub mod rbm;
mod shared;
