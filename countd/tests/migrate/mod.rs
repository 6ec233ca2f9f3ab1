//! `countd storage migrate`: counters move from objects to rows of tables while clients use them.

mod clients;
pub mod failover;
pub mod kills;
mod places;
mod refusals;
mod resets;
pub mod setup;
