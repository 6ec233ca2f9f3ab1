//! Another module writes while keyspace events are published: it deletes, overwrites, renames, resizes or flushes the
//! keys of the command in progress. The server must survive, the reply must be right for what the keys held, and
//! replicas must end with the same data.
//!
//! `scripts/test` runs these under valgrind as well, where a read of freed memory is seen even if it does no harm.

mod bench;
mod marks;
mod reads;
mod writes;
