//! Corrects counters by what they count: the facts of users.

pub mod days;
mod source;

pub use source::{Source, Sources, UserSource};
