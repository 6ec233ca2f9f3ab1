//! Erases entities and users: jobs that remove facts, counters, authors and traces.
//!
//! Facts are removed by actions, with events. What the facts had added elsewhere (counters of other users, credit of authors, reverse
//! facts) is therefore taken back by the path that added it, exactly once. A pass that finds nothing ends the job.

mod context;
mod counters;
mod drain;
mod entity;
mod facts;
mod homes;
mod latest;
mod names;
mod notes;
mod permissions;
mod read_streams;
mod redact;
mod redact_audit;
mod runner;
mod sweep;
mod traces;
mod uncounted;
mod user;

pub use permissions::{required_permissions, split_permissions};
pub use runner::run;
pub use traces::changes_permissions;
