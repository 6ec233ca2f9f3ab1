//! The permissions that backfills require.

use super::scan;
pub use super::scan::fact_permissions;
use crate::maintenance::{drain, visits};
use crate::redis::permissions::Permissions;
use crate::redis::processes::CONSUMER_PERMISSIONS;
use crate::redis::run_id;

/// The permissions that backfills require, except to read facts.
pub fn required_permissions() -> Permissions {
    Permissions::of_commands(scan::PERMISSIONS)
        .and(Permissions::of_commands(visits::PERMISSIONS))
        .and(drain::required_permissions())
        .and(Permissions::of_commands(CONSUMER_PERMISSIONS))
        .and(Permissions::of_commands(run_id::PERMISSIONS))
        .and(crate::redis::layout::record_permissions())
}
