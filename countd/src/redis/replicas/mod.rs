//! Reads from replicas whose data is at most `redis.max_staleness_ms` old.
//!
//! A process asks each primary for its replication offset, and each replica for the offset up to which it has executed. A replica that has
//! reached an offset which the primary had at a time has everything of that time, whatever the clocks of the servers say (`freshness`).
//! A read that is not answered before the data is too old is sent to the primary.

mod freshness;
mod info;
mod probe;

pub use info::{ConnectedReplica, Replication, replicas_of_node};
pub use probe::{Primaries, Replicas, required_permissions};
