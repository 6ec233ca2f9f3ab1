//! Corrects counters by what they count: the facts of users.

mod source;

pub use source::{Source, Sources, UserSource};
