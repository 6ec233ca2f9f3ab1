//! Work on much or all data: imports, migrations of storage and of schemas, backfills of the facts of users, and jobs that erase entities and users.

mod drain;
pub mod erasure;
pub mod import;
pub mod jobs;
mod pace;
pub mod progress;
pub mod rebuild;
pub mod reconcile;
mod report;
pub mod restore;
pub mod reverse;
pub mod schema;
pub mod split;
pub mod storage;
pub mod sums;
pub mod topic;
pub mod transposition;
mod visits;
