//! Writes: actions and envelopes, validated, rate-limited and written to Redis.

mod action;
pub mod actions;
pub mod adjustments;
pub mod announcement;
mod commands;
pub mod envelopes;
mod execution;
mod group_execution;
mod grouped;
mod groups;
mod homes;
mod idempotency;
pub mod limits;
mod prepared;
mod record_execution;
mod records;
mod requests;
mod resets;
mod rounds;
mod split_counts;
mod split_totals;
mod splits;
pub mod user_counters;
mod validation;
mod windows;
