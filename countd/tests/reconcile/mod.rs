//! Reconciliation: wrong counters are corrected, right ones never.

mod checks;
mod command;
mod differences;
mod full_load;
mod hot;
mod large;
mod lost;
mod rounds;
mod settings;
pub mod setup;
