//! Reads: counters, statuses, user counters, the users who performed a metric, and what a user did.

pub mod audit;
mod cached_page;
pub mod changes;
pub mod counts;
mod fact_reads;
pub mod feed;
mod field_commands;
mod field_values;
pub(crate) mod fields;
pub mod history;
mod page_selection;
pub mod prefilter;
pub mod ranks;
pub mod reads;
mod selection;
mod split_fact;
mod splits;
pub mod status;
mod suspects;
pub mod timeline;
mod verify_users;
