//! Commands of operators that process all data: imports, migrations of storage, and backfills of the facts of users.

pub mod import;
pub mod reverse;
pub mod storage;
