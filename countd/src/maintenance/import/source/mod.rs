//! Sources: files, and the keys of a live Redis. A task reads a source and sends it in chunks.

mod chunk;
mod file;
mod live;
mod live_reader;
mod packed;
mod pattern;
mod shape;

pub use chunk::{Chunk, Chunks, FilePosition, Position};
pub use file::{FileSource, Resume};
pub use live::LiveSource;
pub use packed::{Endian, Packed};
pub use pattern::KeyPattern;
pub use shape::{FieldMap, Shape};
