//! The connection to Redis: one server or the nodes of a cluster, commands and scripts.

pub mod call;
pub mod cluster;
mod nodes;
mod repeated;
pub mod script;
pub mod store;
mod timed;
