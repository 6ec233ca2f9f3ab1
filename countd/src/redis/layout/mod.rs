//! The stored layout of the data: settings that apply to all its keys, and are recorded with it.

mod fields;
mod form;
mod schemas;
mod splits;
mod storage;
mod views;

pub use form::{Authors, ReverseState, StoredLayout, Truncation};
pub use schemas::{NextStage, stage_permissions};
pub use storage::{
    Purpose, forget_permissions, record_permissions, required_permissions, split_permissions,
};
