//! Access to Redis: the connection to one server or to the nodes of a cluster, commands, scripts, and the permissions they require.

pub mod ack;
pub mod address;
pub mod author;
pub mod call;
pub mod cluster;
pub mod connect;
pub mod day;
pub mod day_states;
pub mod endpoint;
mod latency;
pub mod layout;
mod layout_cell;
pub mod module;
mod nodes;
pub mod permissions;
pub mod processes;
pub mod rank;
pub mod replica_links;
pub mod replicas;
mod retry;
pub mod run_id;
pub mod script;
pub mod sentinel;
mod server_info;
pub mod store;
mod store_layout;
pub mod timeline;
