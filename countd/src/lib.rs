//! countd, the counting service around the CountInt module: an HTTP API for what users do, an event log, and the consumer that
//! counts it. It speaks the Redis protocol to the module and knows nothing of its code.
//!
//! The modules are layers. A layer uses only those to its left:
//!
//! ```text
//! domain <- redis <- log, facts, storage <- ingest, query, consumer <- http
//! ```

#![warn(missing_docs)]

pub mod consumer;
pub mod domain;
pub mod facts;
pub mod http;
pub mod ingest;
pub mod log;
pub mod query;
pub mod redis;
pub mod storage;
