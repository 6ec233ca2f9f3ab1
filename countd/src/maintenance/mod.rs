//! Work on much or all data: imports, migrations of storage, and jobs that erase entities and users.

pub mod erasure;
pub mod import;
pub mod jobs;
pub mod storage;
