//! Jobs: requests that take longer than a request may. They are stored in Redis and run by the processes that consume.
//!
//! A process claims a job with a lease and extends it while it works. When the process dies, another one continues after the lease has
//! ended. All steps of a job can be repeated, also by two processes at once.

mod lease;
mod model;
mod registry;

pub use lease::Lease;
pub use model::{Job, JobKind, JobState, JobStatus, Progress, Target};
pub use registry::Jobs;

use crate::redis::permissions::Permissions;

/// The permissions to start and read jobs.
pub fn client_permissions() -> Permissions {
    registry::required_permissions()
}

/// The permissions to run jobs, in addition to those of their steps.
pub fn runner_permissions() -> Permissions {
    lease::required_permissions()
}
