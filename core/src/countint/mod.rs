//! CountInt: a small array of unsigned 40-bit counters in one allocation.
//!
//! - [`CountInt`] owns the memory: a two-byte length and the fields, so five counters fit a 32-byte cell.
//! - [`Fields`] is a view of counters in any byte slice. All reads and writes of counters are here, in safe code.
//!
//! A field is [`FIELD_BYTES`] bytes, big-endian, with nothing between the fields: byte for byte what
//! `BITFIELD key SET u40 #idx value` writes into a String.

mod batch;
#[allow(
    unsafe_code,
    reason = "one allocation with a length header, owned through a raw pointer"
)]
mod cell;
mod error;
mod fields;

pub use batch::BatchResult;
pub use cell::{CountInt, MAX_LEN};
pub use error::CountError;
pub use fields::{FIELD_BYTES, FIELD_MAX, Fields, IncrResult, Overflow};
