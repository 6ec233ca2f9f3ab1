//! The parts in which a source is read.

use crate::maintenance::import::error::ImportError;
use crate::maintenance::import::record::{Item, Origin};
use tokio::sync::mpsc;

/// The number of chunks that are read ahead.
const READ_AHEAD: usize = 2;

/// Records that are applied together.
#[derive(Debug)]
pub struct Chunk {
    /// The valid records.
    pub items: Vec<Item>,
    /// The invalid records, and what is wrong with them.
    pub invalid: Vec<(Origin, String)>,
    /// Where the chunk is in the source.
    pub position: Position,
}

/// Where a chunk is in its source.
#[derive(Clone, Debug)]
pub enum Position {
    /// A part of a file. The last chunk of a file is empty.
    File(FilePosition),
    /// A live source, with the cursor after the chunk. `None`: the cursor follows in a later chunk.
    Live(Option<String>),
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePosition {
    /// The number of the chunk; the first is 1.
    pub number: u64,
    /// The offset of its first byte.
    pub start: u64,
    /// The number of lines before it.
    pub lines_before: u64,
    /// The offset of the next byte.
    pub end: u64,
    /// The hash of the file up to `end`.
    pub hash: String,
}

/// The chunks of a source, in order.
pub type Chunks = mpsc::Receiver<Result<Chunk, ImportError>>;
/// The sender of a source.
pub(super) type Sender = mpsc::Sender<Result<Chunk, ImportError>>;

/// A channel for the chunks of a source.
pub(super) fn channel() -> (Sender, Chunks) {
    mpsc::channel(READ_AHEAD)
}
