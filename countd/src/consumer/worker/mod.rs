//! A worker polls its partitions, aggregates the entries and commits them.

mod blocked;
mod flush;
mod partitions;
mod poll;
mod read_limit;
mod repaired_types;
mod repairs;
mod run;
mod state;
mod topic;
mod topic_assign;
mod topic_poll;

pub use state::{Shared, Worker};
