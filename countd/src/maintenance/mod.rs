//! Commands of operators that process all data: imports.

pub mod import;
