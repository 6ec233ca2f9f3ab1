//! Counts by day: they add up to the counter, in every storage and for every way of counting.

mod api;
mod check;
mod counting;
mod maintenance;
mod rolling;
pub mod setup;
