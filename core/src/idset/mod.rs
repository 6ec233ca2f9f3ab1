//! Exact ordered sets of unsigned 64-bit ids.
//!
//! The entry point is [`IdSet`]. Its encoding is internal and adapts to its members: up to 256
//! members are one *page*, a single allocation of a base and packed offsets; more are a *tree* of pages and of *dense
//! chunks*, which are bitmaps or runs of 65,536 ids each (the containers of Roaring bitmaps). A set, a page and a chunk
//! that shrink change back. The two limits differ (hysteresis), so that a set at the limit does not change its encoding
//! with every call. No call takes time in proportion to all members, except those that return or combine all of them.
//!
//! There are two serializations: the portable 64-bit Roaring format, which other implementations read and write
//! ([`IdSet::export`], [`IdSet::from_portable`]), and the blobs of an RDB file ([`IdSet::save_blobs`], [`BlobLoader`]).
//! Both decoders accept hostile bytes: their allocations are bounded by a constant times the bytes received. Where a
//! payload determines the number of members or pages, a failed allocation is [`SetError::OutOfMemory`]. Inside the
//! `roaring` crate and in the directory (a few KB at a time) it aborts, as everywhere in Rust.

mod algebra;
mod bits;
mod blobs;
mod builder;
mod chunk;
mod defrag;
mod dense;
mod error;
mod limits;
mod nodes;
mod op;
mod order;
#[allow(unsafe_code)]
mod page;
mod portable;
mod portable_read;
mod raw;
mod scan;
mod set;
#[cfg(test)]
mod small;
#[allow(unsafe_code)]
mod tagged_pointer;
mod tree;

pub use self::blobs::BlobLoader;
pub use self::error::SetError;
pub use self::op::SetOp;
pub use self::set::{COMPACT_MAX, COMPACT_SHRINK, IdSet};
