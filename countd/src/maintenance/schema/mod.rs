//! Migrates a schema to another one, while clients use both.
//!
//! Counters do not move: the new schema becomes a view of the columns of the old one. The stored layout records the view and the stage.
//! Each stage begins by one script, which compares what it replaces.

mod comparison;
mod error;
mod migration;
mod other_counters;
mod plan;
mod stages;
mod status;

pub use error::SchemaMigrationError;
pub use migration::{Goal, Outcome, SchemaMigration};
pub use plan::Pair;
pub use status::{Behind, Status};

use crate::maintenance::storage::{HOLDER_PERMISSIONS, LEASE};
use crate::maintenance::visits;
use crate::redis::layout;
use crate::redis::permissions::Permissions;
use crate::redis::processes::CONSUMER_PERMISSIONS;

/// The permissions that migrations of schemas require.
pub fn required_permissions() -> Permissions {
    Permissions::of_commands(other_counters::PERMISSIONS)
        .and(Permissions::of_commands(visits::PERMISSIONS))
        .and(Permissions::of_commands(CONSUMER_PERMISSIONS))
        .and(Permissions::of_commands(HOLDER_PERMISSIONS))
        .and(layout::stage_permissions())
        .and(LEASE.required_permissions())
}
