//! Splits hot entities into shards, and merges them again, while clients use them.
//!
//! The stored layout tells processes the phase of a split entity. Each phase has steps that can be repeated: a command that was killed at any
//! point is continued by the next one, or by a process that consumes. The protocol is modelled in `domain::split`.

mod advance;
mod drain;
mod durable;
mod eligible;
mod merge;
mod runner;
mod splitter;
mod threshold;

pub use durable::LOSS;
pub use runner::run;
pub use splitter::{SplitReport, Splitter, refusal_permissions};

use super::storage::give_up_permissions;
use crate::ingest::actions::Actions;
use crate::log::published;
use crate::redis::layout::split_permissions;
use crate::redis::permissions::Permissions;
use crate::redis::script::CounterBackend;
use crate::storage::authors::Authors;
use crate::storage::hot::HotList;

/// The permissions that splits and merges require.
pub fn required_permissions(backend: CounterBackend) -> Permissions {
    split_permissions()
        .and(super::drain::required_permissions())
        .and(advance::required_permissions(backend))
        .and(merge::required_permissions(backend))
        .and(Authors::required_permissions(backend))
        .and(Authors::split_permissions(backend))
        .and(Actions::total_permissions(backend))
        .and(HotList::required_permissions())
        .and(give_up_permissions())
        .and(published::confirm_permissions())
}
