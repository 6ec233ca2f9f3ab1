//! Writes that are confirmed only when they are as safe as `redis.ack` requires: on the disk of the server, or in its replicas.
//!
//! `WAIT` and `WAITAOF` concern what their own connection has written, and block it. These writes therefore have connections of their
//! own, and all commands that wait for a free one are sent together, with one `WAIT` (`node`).

mod node;
mod rule;

pub use node::{AckedNode, Mark};
pub use rule::{AckRule, check_server, permissions};
