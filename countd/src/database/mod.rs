//! Connections to databases: PostgreSQL, MySQL and MariaDB.

mod error;
mod session;

pub use error::DatabaseError;
pub(crate) use session::{Driver, Session, quoted, within};
