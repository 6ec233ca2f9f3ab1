//! Reads: counters, statuses, user counters, and the users who performed a metric.

pub mod changes;
pub mod feed;
pub(crate) mod fields;
pub mod reads;
