//! The console: pages for operators at `/admin`.

mod audit;
mod dead;
mod entity;
mod error;
mod facts;
mod guard;
mod layout;
mod login;
mod overview;
mod reconciliation;
mod routes;
mod schemas;
mod trail;
mod user;

pub use routes::{console_permissions, routes};
