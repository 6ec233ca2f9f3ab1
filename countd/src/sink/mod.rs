//! `countd sink`: keeps facts and counters in tables of PostgreSQL, MySQL or MariaDB.
//!
//! The log tells what may have changed; Redis tells what is true. A transaction reads the facts and counters that the next entries of the log
//! name, writes the rows as Redis has them at that moment, and advances the offsets. So an entry may be read any number of times, and the rows are
//! right when all entries are read. Counters are written when their entries are counted.
//!
//! With Kafka as the log, repeatable events are records of the topic, and the others entries of the streams, as always: the sink reads both.
//!
//! What the log cannot tell is found by a pass over all data: at the first start, after entries were trimmed before they were read, and after a
//! restart of Redis, which may have lost what was read; and when the log is moved to Kafka. A pass reads all facts and counters, then all rows, in the same way as entries of the log.
//!
//! Each process has a lock on the row of the leading process while it reads Redis and writes, so no other can write an earlier state.

mod changes;
mod columns;
mod error;
mod leadership;
mod pass;
mod permissions;
mod repair;
mod run;
mod scan;
mod state;
mod statements;
mod tables;
mod tail;
mod topic_tail;
mod truth;
mod writer;

pub use error::{SinkError, TableLack};
pub use permissions::{counter_permissions, required_permissions};
pub use repair::repair;
pub use run::{check, run};
