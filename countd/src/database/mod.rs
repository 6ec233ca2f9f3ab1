//! Connections to databases: PostgreSQL, MySQL and MariaDB.

mod error;
mod place;
mod session;

pub use error::{DatabaseError, Refusal};
pub use place::DatabasePlace;
pub(crate) use session::{Driver, Session, quoted, within};
