//! The permissions that the consumer requires, in addition to the permissions for the log, the schemas and compaction.

use super::{
    archiver, change_streams, commit, copied_outcomes, membership, outbox, position, server_history,
};
use crate::log::{archive, published};
use crate::redis::layout::record_permissions;
use crate::redis::permissions::Permissions;
use crate::redis::processes::HEARTBEAT;
use crate::redis::script::CounterBackend;
use crate::repair;

/// The permissions to join the consumer group, to commit batches and to forward outboxes.
pub fn required_permissions(backend: CounterBackend) -> Permissions {
    let commands = [
        position::PERMISSIONS,
        membership::PERMISSIONS,
        outbox::PERMISSIONS,
        change_streams::PERMISSIONS,
        archiver::PERMISSIONS,
        copied_outcomes::PERMISSIONS,
        archive::PERMISSIONS,
        published::PERMISSIONS,
    ]
    .concat();
    Permissions::of_commands(&commands)
        .and(HEARTBEAT.required_permissions())
        .and(server_history::required_permissions())
        .and(published::advance_permissions())
        .and(record_permissions())
        .and(commit::COMMIT.required_permissions(backend))
        .and(repair::days::required_permissions(backend))
        .and(repair::ranks::required_permissions(backend))
}
