//! Redis Cluster: one connection to all nodes.

mod commands;
mod connection;
mod route;

pub use commands::{Commands, Server};
pub use connection::{Cluster, PERMISSIONS};
pub use route::{Address, SlotRanges};
