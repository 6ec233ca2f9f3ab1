//! The permissions that a sink requires.

use super::scan::{PERMISSIONS, ROW_PERMISSIONS};
use crate::log::sink_permissions;
use crate::query::reads::Queries;
use crate::redis::layout::record_permissions;
use crate::redis::permissions::Permissions;
use crate::redis::run_id;
use crate::redis::script::CounterBackend;

/// The permissions to follow the logs and to find all keys.
pub fn required_permissions() -> Permissions {
    sink_permissions()
        .and(record_permissions())
        .and(Permissions::of_commands(PERMISSIONS))
        .and(Permissions::of_commands(run_id::PERMISSIONS))
        .and(Permissions::of_commands(&["HMGET {position} 0"]))
}

/// The permissions to read the counters of a type.
pub fn counter_permissions(backend: CounterBackend) -> Permissions {
    let read = Queries::required_permissions(backend);
    match backend.has_tables() {
        true => read.and(Permissions::of_commands(ROW_PERMISSIONS)),
        false => read,
    }
}
