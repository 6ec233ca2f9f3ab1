//! Reads: counters, statuses, user counters, and the users who performed a metric.

pub mod feed;
mod fields;
pub mod reads;
