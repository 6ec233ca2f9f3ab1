//! Redis Cluster: one connection to all nodes.

mod connection;
mod route;

pub use connection::{Cluster, Commands, PERMISSIONS};
pub use route::{Address, SlotRanges};
