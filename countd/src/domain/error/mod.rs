//! Errors of all layers.

mod code;
mod problem;
mod schema;
mod store;

pub use code::ErrorCode;
pub use problem::{Problem, UnsupportedUserId};
pub use schema::{MAX_NAMES, SchemaError, join_names};
pub(crate) use store::is_no_script;
pub use store::{
    ConnectError, StoreError, is_lost_counter, needs_operator, not_acknowledged,
    rejected_by_foreign_last_id,
};
