//! Where commands are sent: one server, or the nodes of a Redis Cluster as one connection.

mod acked;
mod commands;
mod connection;
mod route;
mod slots;
mod via;

use crate::redis::permissions::Permissions;
pub use commands::{Commands, Server};
pub use connection::Cluster;
pub use route::SlotRanges;

/// The permissions that the connection to a cluster itself requires.
pub fn required_permissions() -> Permissions {
    Permissions::of_commands(connection::PERMISSIONS)
        .and(Permissions::of_commands(slots::PERMISSIONS))
}
