//! What countd counts and how it is configured: names, ids, keys, events, configuration and errors. No I/O.

pub mod config;
pub mod error;
pub mod event;
pub mod event_class;
pub mod health;
pub mod ids;
pub mod keys;
pub mod op;
pub mod text;
