//! Measurements. Each starts its own processes and returns its results as plain data.
//!
//! Uses `driver` and `workload`; independent of the report.

pub mod countd;
pub mod entities;
pub mod library;
pub mod members;
pub mod memory;
pub mod rounds;
pub mod rows;
pub mod snapshots;
pub mod stalls;
pub mod stats;
pub mod table_sizes;
pub mod throughput;
