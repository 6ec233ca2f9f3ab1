//! Where counters are: the schemas, which say which field of an object is which counter.

pub mod catalog;
pub mod schema;
