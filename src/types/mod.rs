//! The data types: one trait, the three types that implement it, and access to the values that keys hold.

pub mod access;
pub mod countint;
pub mod counttab;
pub mod data_type;
pub mod idset;

pub use counttab::Table;
