//! Reads: counters, statuses, user counters, and the users who performed a metric.

mod fact_reads;
pub mod feed;
pub(crate) mod fields;
pub mod reads;
pub mod status;
