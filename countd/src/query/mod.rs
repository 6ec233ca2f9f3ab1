//! Reads: counters, statuses, user counters, and the users who performed a metric.

mod fields;
pub mod reads;
