//! Moves counters from objects to rows of tables, and data that was created without the module to the module's types (`adoption`), while
//! clients use them.
//!
//! The stored layout tells processes which commands to send for a type: those on objects, scripts that get both places, or those on
//! rows. While it says `moving`, the phase of a slot tells the scripts where the counters are: in objects if it is absent, and in rows
//! if not. In the latter case a script moves the object of its counters first, if it still exists. The counters of an entity are
//! therefore in one place at any time, and each step changes or moves exactly one value.
//!
//! Each step of a migration can be repeated. A migration that was killed at any point is finished by running the command again.

mod adoption;
mod adoption_pass;
mod error;
mod lease;
mod leftovers;
mod migration;
mod pass;
mod passes;
mod processes;
mod progress;
mod record;
mod retry;
mod slots;
mod splits;
mod sums;
mod target;

pub use adoption::{AdoptionOptions, AdoptionReport, AdoptionRun};
pub use error::MigrationError;
pub use lease::LEASE;
pub(in crate::maintenance) use lease::{HOLDER_PERMISSIONS, Lease};
pub use leftovers::{MAX_LEFTOVERS, leftovers};
pub use migration::{Migration, Options};
pub(in crate::maintenance) use processes::Processes;
pub use progress::{Damage, Report};
pub use record::{RecordedRun, Recorder, RunState, recorded_permissions, recorded_runs};
pub(in crate::maintenance) use splits::refuse_while_split;
pub(in crate::maintenance) use sums::{give_up, give_up_permissions};
pub use target::Target;

use super::visits;
use crate::redis::layout;
use crate::redis::permissions::Permissions;
use crate::redis::processes::CONSUMER_PERMISSIONS;
use crate::redis::script::CounterBackend;

/// Commands that set the phases of slots.
const PERMISSIONS: &[&str] = &["HSET {phases} f v", "HSETNX {phases} f v"];

/// The permissions that migrations and adoptions require.
pub fn required_permissions(backend: CounterBackend, is_cluster: bool) -> Permissions {
    let commands = [
        PERMISSIONS,
        pass::PERMISSIONS,
        passes::PERMISSIONS,
        record::PERMISSIONS,
        visits::PERMISSIONS,
        CONSUMER_PERMISSIONS,
    ]
    .concat();
    let commands = match is_cluster {
        true => [&commands, slots::CLUSTER_PERMISSIONS].concat(),
        false => commands,
    };
    Permissions::of_commands(&commands)
        .and(leftovers::required_permissions())
        .and(layout::record_permissions())
        .and(lease::LEASE.required_permissions())
        .and(match backend {
            CounterBackend::Module => pass::MOVE.required_permissions(backend),
            // The server may lack the commands.
            CounterBackend::Strings => Permissions::default(),
            _ => adoption::required_permissions(),
        })
}
