//! The stored layout of the data: settings that apply to all its keys, and are recorded with it.

mod form;
mod storage;

pub use form::{Authors, ReverseState, StoredLayout};
pub use storage::{Purpose, record_permissions, required_permissions};
