//! `countd relay`: reads the events of an outbox table in PostgreSQL, MySQL or MariaDB and appends them to the log.
//!
//! A transaction locks the next rows (`FOR UPDATE SKIP LOCKED`), so several relays never have the same ones. Their events are appended
//! to the log, then the transaction deletes or marks the rows and commits. After a crash in between, the rows are read and appended
//! again: at least once. The consumer counts each `event_id` once, so together each event counts exactly once.
//!
//! Several connections work at the same time: while one waits for its commit, the next rows are read. Batches are appended in the
//! order in which they were read.

mod connection;
mod error;
mod repair;
mod row;
mod run;
mod statements;
mod turns;

pub use error::RelayError;
pub use repair::repair;
pub use run::{check, run};
