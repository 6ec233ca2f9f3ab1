//! Shared by the tests: countd as a process, an HTTP client, Redis servers, and a workload of concurrent clients with its model.

mod api;
pub mod certificates;
pub mod conversions;
pub mod database;
mod drain;
pub mod invariants;
pub mod kafka;
mod link;
pub mod monitored;
pub mod operations;
mod pause;
mod process;
mod running;
pub mod saboteur;
mod sse;
pub mod stores;
pub mod verify;
pub mod workload;

pub use api::{Api, Response, assert_refused, metric, on_note, with};
pub use drain::{
    wait_until_all_drained, wait_until_clients_drained, wait_until_days_are_kept,
    wait_until_drained,
};
pub use link::Link;
pub use pause::pause;
pub use process::{
    Countd, Settings, dead_reasons, environment, printed, run, run_as_user, run_at, run_with_url,
    set_schema,
};
pub use running::Running;
pub use sse::EventStream;
pub use stores::one_node_cluster;
