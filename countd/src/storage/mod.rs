//! Where counters are stored: schemas, which name the fields of counters, and the catalog of metrics.

pub mod catalog;
pub mod schema;
