//! Corrects counters by what they count: the facts of users.

pub mod days;
mod flights;
mod rebuild;
mod source;
mod zeros;

pub use rebuild::Rebuilder;
pub use source::{Source, Sources, UserSource};
