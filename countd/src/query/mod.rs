//! Reads: counters, statuses, users' counters, and who did something.

pub mod reads;
