//! The permissions that using the log requires.

use super::archive;
use super::{
    dead_letters, foreign_ids, holds, inspect, partition_reads, published, reset, retention,
    stream_log,
};
use crate::redis::permissions::Permissions;

/// The permissions to append to the log.
pub fn producer_permissions() -> Permissions {
    let append = stream_log::APPEND.required_permissions();
    append
        .and(foreign_ids::RENUMBER.required_permissions())
        .and(Permissions::of_commands(published::PERMISSIONS))
}

/// The permissions to read and trim the log, and to keep its dead letters within their limit.
pub fn consumer_permissions(is_cluster: bool) -> Permissions {
    let read = match is_cluster {
        true => partition_reads::READ.required_permissions(),
        false => Permissions::of_commands(stream_log::READ_PERMISSIONS),
    };
    read.and(Permissions::of_commands(stream_log::TRIM_PERMISSIONS))
        .and(Permissions::of_commands(retention::PERMISSIONS))
        .and(retention::TRIM.required_permissions())
        .and(Permissions::of_commands(holds::READ_PERMISSIONS))
        .and(Permissions::of_commands(dead_letters::TRIM_PERMISSIONS))
        .and(inspect::INSPECT.required_permissions())
}

/// The permissions to read how many entries have not been counted.
pub fn lag_permissions() -> Permissions {
    inspect::INSPECT.required_permissions()
}

/// The permissions to follow the log for a sink, to keep what it has not read, and to trim the rest.
pub fn sink_permissions() -> Permissions {
    Permissions::of_commands(holds::READ_PERMISSIONS)
        .and(holds::HOLD.required_permissions())
        .and(partition_reads::READ.required_permissions())
        .and(retention::TRIM.required_permissions())
}

/// The permissions to archive the log.
pub fn archive_permissions() -> Permissions {
    Permissions::of_commands(archive::PERMISSIONS)
        .and(archive::advance_permissions())
        .and(archive::guard_permissions())
        .and(partition_reads::READ.required_permissions())
}

/// The permissions to list and drop dead letters.
pub fn dead_letter_permissions() -> Permissions {
    Permissions::of_commands(dead_letters::OPERATOR_PERMISSIONS)
}

/// The permissions of the commands for operators: `countd dead`, `countd log` and `countd check`.
pub fn operator_permissions() -> Permissions {
    dead_letter_permissions()
        .and(inspect::INSPECT.required_permissions())
        .and(reset::RESET.required_permissions())
        .and(producer_permissions())
}
