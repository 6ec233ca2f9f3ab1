//! What the tests share: countd as a process, requests to it, servers for it, and what many clients do.

mod api;
pub mod compare;
mod drained;
mod process;
pub mod workload;
pub mod worlds;

pub use api::{Answer, Api, metric, on_note, refused, with};
pub use drained::{wait_until_all_drained, wait_until_clients_drained, wait_until_drained};
pub use process::{Countd, Settings, dead_reasons, printed, run, run_as_user, set_schema};
pub use worlds::one_node_cluster;

/// A pause between two attempts.
pub fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(20));
}
