//! The vocabulary of the service: names, IDs, keys, events, configuration and errors. No I/O.

pub mod author_feed;
pub mod changes;
pub mod config;
pub mod day;
pub mod error;
pub mod event;
pub mod event_class;
pub mod health;
pub mod ids;
pub mod keys;
pub mod op;
pub mod progress;
pub mod schema_views;
pub mod sizing;
pub mod space_saving;
pub mod split;
pub mod sweep_ages;
pub mod text;
