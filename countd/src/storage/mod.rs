//! Where counters are stored: their locations, schemas, which name the fields of counters, the catalog of metrics, and the cache of hot
//! entities.

pub mod authors;
pub mod catalog;
pub mod hot;
pub mod locator;
pub mod moves;
pub mod schema;
mod split_authors;
pub mod user_schema;

pub use split_authors::ShardCredit;
