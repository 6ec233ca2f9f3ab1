//! What the tests share: countd as a process, requests to it, servers for it, and what many clients do.

mod api;
mod drain;
mod process;
pub mod stores;
pub mod verify;
pub mod workload;

pub use api::{Api, Response, assert_refused, metric, on_note, with};
pub use drain::{wait_until_all_drained, wait_until_clients_drained, wait_until_drained};
pub use process::{Countd, Settings, dead_reasons, printed, run, set_schema};
pub use stores::one_node_cluster;

/// A pause between two attempts.
pub fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(20));
}
