//! Another module writes in its keyspace-event callbacks: it deletes, overwrites, renames, resizes or flushes the keys
//! of the command in progress. The server must not crash, the reply must match the keys' data, and replicas must
//! converge.
//!
//! `scripts/test` also runs these tests under valgrind, which detects reads of freed memory.

mod fixture;
mod marks;
mod mmarks;
mod reads;
mod writes;
