//! Commands of operators that process all data: imports, and migrations of storage.

pub mod import;
pub mod storage;
