//! Tables of counters: an ordered map from 64-bit ids to rows of unsigned 40-bit counters, compressed
//! column by column.
//!
//! The entry point is [`CountTab`]. Rows are stored in pages of up to about 64 rows, sorted by id
//! (see `page`). Each column of a page is as wide as its largest value there needs (frame-of-reference bit packing, with
//! a width for each column). So a long tail of small counts costs a few bits each, and one large value widens one column
//! of one page. Pages are found through a directory of two levels. A change that fits is made in place; any other
//! rebuilds one page, which takes about a microsecond for any size of the table.
//!
//! An export and the blobs of an RDB file contain the pages as they are in memory. Loaders check every byte.

mod batch;
mod bits;
mod blobs;
mod build;
mod change;
mod cost;
mod directory;
mod fences;
mod page;
mod read;
mod remove;
mod table;
mod transfer;
mod wire;

pub use self::batch::{BatchResult, RowIncrement};
pub use self::blobs::BlobLoader;
pub use self::change::RowIncrResult;
pub use self::fences::MAX_SOURCE;
pub use self::read::read_pairs;
pub use self::table::CountTab;
pub use self::transfer::ImportError;
