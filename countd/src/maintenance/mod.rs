//! Work on much or all data: imports, and jobs that erase entities and users.

pub mod erasure;
pub mod import;
pub mod jobs;
