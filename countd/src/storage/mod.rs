//! Where counters are stored: their locations, schemas, which name the fields of counters, and the catalog of metrics.

pub mod authors;
pub mod catalog;
pub mod locator;
pub mod moves;
pub mod schema;
pub mod user_schema;
