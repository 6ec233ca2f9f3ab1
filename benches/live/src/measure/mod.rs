//! How it is measured: each measurement starts its own processes and returns plain results.
//!
//! Uses the driver and the workloads; knows nothing of how results are reported.

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
