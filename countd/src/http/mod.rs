//! The HTTP API. Every path is also available under `/api/v1`.

mod adjust;
mod app;
mod auth;
mod budget;
mod changes;
mod counters;
mod entities;
mod errors;
mod events;
pub mod exposition;
mod extract;
mod feed;
mod history;
mod idempotency;
mod items;
mod jobs;
mod json;
mod jwt;
mod middleware;
mod openapi;
mod operations;
mod parse_errors;
mod ranks;
mod rate_limit;
pub mod request_log;
mod router;
mod serve;
mod telemetry;
mod timelines;
mod unread_body;
mod user_counters;
mod users;
mod writes;

pub use jwt::KeyFileError;
pub use router::{document, operational_router, router};
pub use serve::serve;
