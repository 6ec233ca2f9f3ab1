//! Corrects counters by what they count: the facts of users, or their counts by day.

mod append;
mod check_now;
pub mod day_states;
pub mod days;
mod flights;
mod rebuild;
mod retry;
mod settle;
mod source;
mod zeros;

pub use append::{AppendedChecks, CheckRequest, append_checks, append_permissions};
pub use check_now::{
    CheckNow, CheckedCounter, CounterCheck, Found, Outcome, check_now, check_now_permissions,
    record_difference, record_found,
};
pub use rebuild::Rebuilder;
pub use retry::{retry, retry_permissions};
pub use settle::settle;
pub use source::{Source, Sources, UserSource};
