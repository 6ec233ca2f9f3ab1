//! Changes of counters, for clients that cache them.
//!
//! Commits and resets append the changed entities to the streams of changes. One reader task for each process reads the streams while it
//! has clients, coalesces the changes of 200 ms, and broadcasts them. A client that reconnects first gets what it missed from the streams
//! themselves. Where the streams have been trimmed or deleted, or a client does not keep up, the client gets a reset instead.

mod client;
mod cursor;
mod event;
mod hub;
mod reader;
mod streams;

pub use client::KEEP_ALIVE;
pub use event::{ChangeEvent, TypeChanges};
pub use hub::Changes;
pub use streams::required_permissions;
